package realtarget

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/loupe-go/loupe/internal/testcmd"
)

// planGopls runs a gopls that serves several editors by TCP. Each has the same
// small module open.
func planGopls(at *site) (*plan, error) {
	root := filepath.Join(at.dir, "module")
	for name, content := range map[string]string{
		"module/go.mod":     "module example.com/module\n\ngo 1.21\n",
		"module/main.go":    goplsSource,
		"go/telemetry/mode": "off", // it would start a process of its own for that
	} {
		path := filepath.Join(at.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	// gopls asks the go command for what the module imports.
	goroot, err := testcmd.Command(nil, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	tools := filepath.Join(strings.TrimSpace(string(goroot)), "bin")
	return &plan{
		args: []string{"serve", "-listen=" + at.addrs[0], "-debug=" + at.addrs[1]},
		env: []string{
			"PATH=" + tools + ":" + os.Getenv("PATH"), "GOTOOLCHAIN=local", "GOPROXY=off", "CGO_ENABLED=0",
			"GOPATH=" + filepath.Join(at.dir, "gopath"), "GOFLAGS=-buildvcs=false",
		},
		pprof:   "http://" + at.addrs[1] + "/debug/pprof",
		connect: func(ctx context.Context) (client, error) { return dialEditor(ctx, at.addrs[0], root) },
		guests:  2, loaders: 2,
	}, nil
}

// goplsSource is the file that is edited.
const goplsSource = `package main

import (
	"fmt"
	"strings"
)

func main() {
	fmt.Println(strings.ToUpper("hello"))
}
`

// Place of Println in goplsSource, counted from 0.
const goplsLine, goplsColumn = 8, 6

// An editor is a client that speaks the Language Server Protocol.
type editor struct {
	conn net.Conn
	in   *bufio.Reader
	file string // URI of the open file
	id   int    // of the last request
}

// dialEditor connects and opens the file in the module at root.
func dialEditor(ctx context.Context, addr, root string) (client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	e := &editor{conn: conn, in: bufio.NewReader(conn), file: "file://" + root + "/main.go"}
	if err := e.open(ctx, "file://"+root); err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

func (e *editor) open(ctx context.Context, root string) error {
	if err := setDeadline(ctx, e.conn); err != nil {
		return err
	}
	if _, err := e.call("initialize", object{"rootUri": root, "capabilities": object{}}); err != nil {
		return err
	}
	if err := e.send(object{"method": "initialized", "params": object{}}); err != nil {
		return err
	}
	return e.send(object{"method": "textDocument/didOpen", "params": object{
		"textDocument": object{"uri": e.file, "languageId": "go", "version": 0, "text": goplsSource}}})
}

// request changes the file and asks something about it.
func (e *editor) request(ctx context.Context, n int) error {
	if err := setDeadline(ctx, e.conn); err != nil {
		return err
	}
	err := e.send(object{"method": "textDocument/didChange", "params": object{
		"textDocument":   object{"uri": e.file, "version": n + 1},
		"contentChanges": []object{{"text": fmt.Sprintf("%s\nvar _ = %d\n", goplsSource, n)}}}})
	if err != nil {
		return err
	}
	questions := []struct{ method, want string }{
		{"textDocument/hover", "func fmt.Println"},
		{"textDocument/definition", "print.go"},
		{"textDocument/completion", "Println"},
		{"textDocument/documentSymbol", "main"},
	}
	q := questions[n%len(questions)]
	answer, err := e.call(q.method, object{
		"textDocument": object{"uri": e.file},
		"position":     object{"line": goplsLine, "character": goplsColumn},
	})
	if err == nil && !strings.Contains(string(answer), q.want) {
		err = fmt.Errorf("%s is answered with %.300q, which lacks %q", q.method, answer, q.want)
	}
	return err
}

func (e *editor) close() { e.conn.Close() }

type object = map[string]any

// call sends a request and returns its result. What the server asks or tells
// meanwhile is answered with nothing.
func (e *editor) call(method string, params object) (json.RawMessage, error) {
	e.id++
	if err := e.send(object{"id": e.id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		var m struct {
			ID     *json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		body, err := e.receive()
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, err
		}
		switch {
		case m.Method != "" && m.ID != nil:
			if err := e.send(object{"id": m.ID, "result": nil}); err != nil {
				return nil, err
			}
		case m.Method == "" && m.ID != nil && string(*m.ID) == strconv.Itoa(e.id):
			if m.Error != nil {
				return nil, fmt.Errorf("%s: %s", method, m.Error)
			}
			return m.Result, nil
		}
	}
}

// send sends a message.
func (e *editor) send(message object) error {
	message["jsonrpc"] = "2.0"
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.conn, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// receive reads the body of a message.
func (e *editor) receive() ([]byte, error) {
	size := 0
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == "\r\n" {
			break
		}
		if digits, ok := strings.CutPrefix(strings.TrimSpace(line), "Content-Length: "); ok {
			if size, err = strconv.Atoi(digits); err != nil {
				return nil, err
			}
		}
	}
	const most = 64 << 20
	if size <= 0 || size > most {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	body := make([]byte, size)
	_, err := io.ReadFull(e.in, body)
	return body, err
}
