package testkube

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A signingKey signs the tokens of service accounts.
type signingKey struct{ *rsa.PrivateKey }

// newSigningKey makes a key and writes it to a file.
func newSigningKey(tb testing.TB, file string) *signingKey {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		tb.Fatal(err)
	}
	return &signingKey{key}
}

// Token returns a token of a service account in the namespace "default", which expires after a time. The time may be negative. The
// server itself issues none for less than ten minutes.
func (s *Server) Token(account string, valid time.Duration) string {
	s.tb.Helper()
	var stored corev1.ServiceAccount
	s.Do(http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/"+account, nil, &stored)
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": []string{issuer}, "sub": "system:serviceaccount:default:" + account,
		"iat": now.Add(-time.Hour).Unix(), "nbf": now.Add(-time.Hour).Unix(), "exp": now.Add(valid).Unix(),
		"kubernetes.io": map[string]any{"namespace": "default",
			"serviceaccount": map[string]any{"name": account, "uid": stored.UID}},
	}
	token, err := s.key.sign(claims)
	if err != nil {
		s.tb.Fatal(err)
	}
	return token
}

// sign returns a JSON Web Token.
func (k *signingKey) sign(claims map[string]any) (string, error) {
	text := ""
	for _, part := range []map[string]any{{"alg": "RS256", "typ": "JWT"}, claims} {
		doc, err := json.Marshal(part)
		if err != nil {
			return "", err
		}
		text += base64.RawURLEncoding.EncodeToString(doc) + "."
	}
	sum := sha256.Sum256([]byte(text[:len(text)-1]))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k.PrivateKey, crypto.SHA256, sum[:])
	return text + base64.RawURLEncoding.EncodeToString(signature), err
}

// Kubeconfig writes a kubeconfig whose user has the token in a file, and returns its path.
func (s *Server) Kubeconfig(tokenFile string) string {
	s.tb.Helper()
	return WriteKubeconfig(s.tb, s.URL, s.CAFile(), tokenFile)
}

// WriteKubeconfig writes a kubeconfig for a server. The files with the server's certificate and with a token may be empty.
func WriteKubeconfig(tb testing.TB, url, caFile, tokenFile string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: agent, user: {tokenFile: %q}}]
contexts: [{name: test, context: {cluster: test, user: agent}}]
current-context: test
`, url, caFile, tokenFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
