package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sort"
	"strings"
	"sync"
	"time"
)

// A peer is not a database: it speaks as much of the wire protocol of MongoDB as the driver requires, and answers commands without
// executing them. What it answers depends on the collection: missing is an error of the command, duplicate one of a document that is
// written, concern one of the write concern, and slow is a late answer.
type peer struct {
	address string

	mu       sync.Mutex
	received map[string]int // by command
	hangUps  int
}

// Operation codes and flags of the wire protocol.
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013

	moreToCome = 1 << 1 // the sender expects no answer
)

func listen() *peer {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	p := &peer{address: l.Addr().String(), received: map[string]int{}}
	go func() {
		for {
			conn, err := l.Accept()
			check(err)
			go p.serve(conn)
		}
	}()
	return p
}

func (p *peer) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = map[string]int{}
}

func (p *peer) hangUp(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangUps = n
}

func (p *peer) counts() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for name, n := range p.received {
		list = append(list, fmt.Sprintf("%s=%d", name, n))
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}

func (p *peer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		var header [16]byte
		if _, err := io.ReadFull(in, header[:]); err != nil {
			return
		}
		body := make([]byte, binary.LittleEndian.Uint32(header[:])-16)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		request, code := header[4:8], binary.LittleEndian.Uint32(header[12:])
		var doc raw
		switch code {
		case opQuery: // flags, the name of a collection, two numbers
			doc = raw(body[4+bytes.IndexByte(body[4:], 0)+1+8:])
		case opMsg:
			doc = firstDocument(body[4:])
		default:
			return
		}
		reply, ok := p.execute(doc)
		if !ok {
			return
		}
		if code == opMsg && body[0]&moreToCome != 0 {
			continue
		}
		if _, err := conn.Write(message(request, code, reply)); err != nil {
			return
		}
	}
}

// firstDocument returns the document of the section of kind 0. Others are sequences of documents.
func firstDocument(sections []byte) raw {
	for len(sections) > 5 {
		size := binary.LittleEndian.Uint32(sections[1:])
		if sections[0] == 0 {
			return raw(sections[1 : 1+size])
		}
		sections = sections[1+size:]
	}
	return nil
}

// message returns an answer.
func message(request []byte, code uint32, reply document) []byte {
	doc, err := marshal(reply)
	check(err)
	body := append([]byte{0, 0, 0, 0, 0}, doc...) // flags, a section of kind 0
	answer := uint32(opMsg)
	if code == opQuery {
		body = append(make([]byte, 20), doc...) // flags, cursor, position
		body[16] = 1                            // number of documents
		answer = opReply
	}
	m := binary.LittleEndian.AppendUint32(nil, uint32(16+len(body)))
	m = append(m, request...)
	m = append(m, request...)
	m = binary.LittleEndian.AppendUint32(m, answer)
	return append(m, body...)
}

// execute returns the answer to a command. ok is false if the connection is to be closed.
func (p *peer) execute(doc raw) (reply document, ok bool) {
	elements, err := doc.Elements()
	check(err)
	name := elements[0].Key()
	collection, _ := elements[0].Value().StringValueOK()
	if lower := strings.ToLower(name); lower == "hello" || lower == "ismaster" {
		return document{{Key: "helloOk", Value: true}, {Key: "isWritablePrimary", Value: true}, {Key: "ismaster", Value: true},
			{Key: "maxBsonObjectSize", Value: 16 << 20}, {Key: "maxMessageSizeBytes", Value: 48000000}, {Key: "maxWriteBatchSize", Value: 100000},
			{Key: "logicalSessionTimeoutMinutes", Value: 30}, {Key: "minWireVersion", Value: 0}, {Key: "maxWireVersion", Value: 21}, {Key: "ok", Value: 1}}, true
	}
	p.mu.Lock()
	p.received[name]++
	hang := p.hangUps > 0
	if hang {
		p.hangUps--
	}
	p.mu.Unlock()
	if hang {
		return nil, false
	}
	if collection == "slow" {
		time.Sleep(500 * time.Millisecond)
	}
	return answerTo(name, collection), true
}

func answerTo(name, collection string) document {
	ok, n := document{{Key: "ok", Value: 1}}, document{{Key: "ok", Value: 1}, {Key: "n", Value: 1}}
	cursor := func(id int64, batch string, documents ...document) document {
		return append(document{{Key: "cursor", Value: document{{Key: "id", Value: id}, {Key: "ns", Value: "museum." + collection},
			{Key: batch, Value: documents}}}}, ok...)
	}
	item := document{{Key: "_id", Value: 1}, {Key: "n", Value: 1}}
	switch {
	case collection == "missing":
		return document{{Key: "ok", Value: 0}, {Key: "code", Value: 26}, {Key: "codeName", Value: "NamespaceNotFound"}, {Key: "errmsg", Value: "no such collection"}}
	case collection == "duplicate":
		return append(n, document{{Key: "writeErrors", Value: []document{{{Key: "index", Value: 0}, {Key: "code", Value: 11000}, {Key: "errmsg", Value: "duplicate"}}}}}...)
	case collection == "concern":
		return append(n, document{{Key: "writeConcernError", Value: document{{Key: "code", Value: 64}, {Key: "errmsg", Value: "timeout"}}}}...)
	case name == "find":
		return cursor(7, "firstBatch", item, item)
	case name == "getMore":
		return cursor(0, "nextBatch", item)
	case name == "aggregate":
		return cursor(0, "firstBatch", item)
	}
	return n
}
