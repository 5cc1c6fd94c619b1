// Kiosk serves HTTP, and HTTP/2 with TLS. It sends no requests. Without the build tag client its executable contains no client.
//
// It adds the command `address`, which answers with the addresses of its servers: `address PLAIN TLS`. They serve the paths
//
//	/hello      answers hello
//	/items/ID   is a pattern with a parameter
//	/panic      panics
//	/abort      panics with http.ErrAbortHandler
//	/exit       calls runtime.Goexit
//	/recovered  panics, and the handler recovers
//	/hijack     takes over the connection, and closes it
//	/spawn      answers when a goroutine that it has created has ended
//
// Requests reach the http.ServeMux as the file with the build tag says: plain.go, copy.go, value.go, embed.go or client.go.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"runtime"
)

func check(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "kiosk: %v\n", err)
		os.Exit(2)
	}
}

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

func routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", hello)
	mux.HandleFunc("/items/{id}", hello)
	mux.HandleFunc("/panic", func(http.ResponseWriter, *http.Request) { panic("kiosk") })
	mux.HandleFunc("/abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { runtime.Goexit() })
	mux.HandleFunc("/recovered", func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			recover()
			hello(w, r)
		}()
		panic("kiosk")
	})
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		check(err)
		conn.Close()
	})
	mux.HandleFunc("/spawn", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan bool)
		go func() {
			runtime.Gosched()
			done <- true
		}()
		<-done
		hello(w, r)
	})
	return mux
}

// certificate returns a certificate that nobody trusts.
func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	return l
}

func main() {
	handler := reach(routes())
	quiet := log.New(io.Discard, "", 0)
	plain, secure := listen(), listen()
	go func() { check((&http.Server{Handler: handler, ErrorLog: quiet}).Serve(plain)) }()
	config := &tls.Config{Certificates: []tls.Certificate{certificate()}}
	go func() {
		check((&http.Server{Handler: handler, ErrorLog: quiet, TLSConfig: config}).ServeTLS(secure, "", ""))
	}()
	serve(false, map[string]command{
		"address": func([]string) string { return "address " + plain.Addr().String() + " " + secure.Addr().String() },
	})
}
