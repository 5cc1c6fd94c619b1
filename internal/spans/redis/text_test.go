package redis

import (
	"strings"
	"testing"
)

func TestQueryText(t *testing.T) {
	for _, test := range []struct {
		args  string // * is not a text
		count uint64 // more than in args; 0: the same
		want  string
	}{
		{"get k", 0, "get k"},
		{"GET k", 0, "GET k"},
		{"set k secret EX 5", 0, "set k ? ? ?"},
		{"set * secret", 0, "set ? ?"},
		{"auth secret", 0, "auth ?"},
		{"auth user secret", 0, "auth ? ?"},
		{"nonsense k", 0, "nonsense ?"},
		{"hset h f secret", 0, "hset h ? ?"},
		{"rename a b", 0, "rename a b"},
		{"mget a b c d e", 0, "mget a b c d e"},
		{"mget a b c d e", 8, "mget a b c d e ? ?"},
		{"mset a 1 b 2 c", 7, "mset a ? b ? c ?"},
		{"blpop a b 0", 0, "blpop a b ?"},
		{"blpop a b c d e", 8, "blpop a b c d e ? ?"},
		{"config set requirepass secret", 0, "config set ? ?"},
		{"xgroup create s g 0", 0, "xgroup create s ? ?"},
		{"memory usage k", 0, "memory usage k"},
		{"eval script 1 k secret", 0, "eval ? ? ? ?"},
		{"ping", 0, "ping"},
		{"del a", 1 << 40, "del a" + strings.Repeat(" ?", 14) + " ..."},
	} {
		args := strings.Fields(strings.ReplaceAll(test.args, "*", "\x00"))
		for i := range args {
			args[i] = strings.Trim(args[i], "\x00")
		}
		count := test.count
		if count == 0 {
			count = uint64(len(args))
		}
		if got := queryText(args, count); got != test.want {
			t.Errorf("%s of %d: %q, want %q", test.args, count, got, test.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key": "WRONGTYPE", "ERR unknown command": "ERR", "NOSCRIPT No matching script": "NOSCRIPT",
		"redis: nil": "", "redis: transaction failed": "", "ERR": "", "": "", " x": "", "Err x": "",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA x": "", "k\xff x": "",
	} {
		if got := prefixOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
