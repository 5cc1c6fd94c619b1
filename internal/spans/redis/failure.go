package redis

import (
	"strings"

	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/loupe-go/loupe/internal/probe"
)

// A failure is an error of an attempt. The zero value means that the attempt has not failed.
type failure struct {
	kind   string // what is reported: the prefix of an error of Redis, or else a type
	status string // the prefix of an error of Redis
	text   string // of an error of Redis, and of an errors.errorString
	redis  bool   // it is an error of Redis
}

// failure reads an error.
func (d *decoder) failure(n *probe.Note) failure {
	typ, value := n.Word(), n.Word()
	text := string(n.Text().Bytes)
	if typ == 0 && value == 0 {
		return failure{}
	}
	f := failure{kind: semconv.ErrorTypeOther.Value.AsString()}
	name, err := d.typeName(typ)
	if typ == 0 || err != nil {
		return f
	}
	f.kind = name
	f.redis = name == "proto.RedisError" || strings.HasPrefix(name, "*proto.")
	if f.redis || name == "*errors.errorString" {
		f.text = text
	}
	if prefix := prefixOf(f.text); f.redis && prefix != "" {
		f.kind, f.status = prefix, prefix
	}
	return f
}

// prefixOf returns the prefix of an error of Redis, such as WRONGTYPE: a word in upper case. It returns "" if there is none.
func prefixOf(text string) string {
	word, _, ok := strings.Cut(text, " ")
	if !ok || word == "" || len(word) > 32 || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return ""
	}
	return word
}

// none reports that there is no error.
func (f failure) none() bool { return f.kind == "" }

// missing reports whether it is redis.Nil: a value does not exist.
func (f failure) missing() bool { return f.redis && f.text == "redis: nil" }

// temporary are the prefixes of errors for which clients make another attempt.
var temporary = map[string]bool{"LOADING": true, "READONLY": true, "CLUSTERDOWN": true, "TRYAGAIN": true, "MASTERDOWN": true, "NOREPLICAS": true}

// final reports whether clients never make another attempt.
func (f failure) final() bool {
	if f.redis {
		return !temporary[f.status] && f.text != "ERR max number of clients reached"
	}
	return f.text == "context canceled" || f.kind == "context.deadlineExceededError"
}
