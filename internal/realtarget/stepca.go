package realtarget

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// planStepCA runs a certificate authority that keeps its data in PostgreSQL. The load are requests of ACME, by HTTP/2.
func planStepCA(at *site) (*plan, error) {
	file := func(name string) string { return filepath.Join(at.dir, name) }
	root, err := writeAuthority(at.dir)
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"root": file("root.pem"), "crt": file("ca.pem"), "key": file("key.pem"), "address": at.addrs[0], "dnsNames": []string{"127.0.0.1"},
		"logger":    map[string]string{"format": "json"},
		"db":        map[string]string{"type": "postgresql", "dataSource": at.backend, "database": "stepca"},
		"authority": map[string]any{"provisioners": []map[string]string{{"type": "ACME", "name": "acme"}}},
	})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file("ca.json"), config, 0o600); err != nil {
		return nil, err
	}
	base := "https://" + at.addrs[0]
	return &plan{
		args:   []string{file("ca.json")},
		env:    []string{"STEPPATH=" + at.dir},
		ready:  base + "/health",
		access: filepath.Join(at.dir, "log"),
		tls:    &tls.Config{RootCAs: root},
		connect: func(context.Context) (client, error) {
			return &webUser{newTLSClient(&tls.Config{RootCAs: root}), func(n int) ask {
				return pick(n,
					ask{method: http.MethodHead, url: base + "/acme/acme/new-nonce"},
					ask{method: http.MethodGet, url: base + "/acme/acme/directory", want: "newNonce"},
					ask{method: http.MethodGet, url: base + "/1.0/provisioners", want: "acme"},
					ask{method: http.MethodGet, url: base + "/root/abc", status: http.StatusNotFound},
					ask{method: http.MethodPost, url: base + "/acme/acme/new-account", body: "{}", status: http.StatusBadRequest},
					ask{method: http.MethodGet, url: base + "/nothing", status: http.StatusNotFound})
			}}, nil
		},
		guests: 2, loaders: 10,
	}, nil
}

// writeAuthority makes a root certificate and an authority that it has signed, and writes them to a directory.
func writeAuthority(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "root"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, SubjectKeyId: []byte{1},
	}
	ca := *root
	ca.SerialNumber, ca.Subject, ca.SubjectKeyId = big.NewInt(2), pkix.Name{CommonName: "authority"}, []byte{2}
	for name, c := range map[string]*x509.Certificate{"root.pem": root, "ca.pem": &ca} {
		der, err := x509.CreateCertificate(rand.Reader, c, root, &key.PublicKey, key)
		if err != nil {
			return nil, err
		}
		if c.Raw, err = der, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
			return nil, err
		}
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	parsed, err := x509.ParseCertificate(root.Raw)
	if err == nil {
		pool.AddCert(parsed)
	}
	return pool, err
}
