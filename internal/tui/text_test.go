package tui

import (
	"strings"
	"testing"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"net/http.(*conn).serve": "net/http.(*conn).serve",
		"main.grüße·1":           "main.grüße·1",
		"日本語":                    "日本語",
		"a\x1b[31m":              `a\x1b[31m`,
		"e\u0301":                `e\u0301`,
		"👩":                      `\U0001f469`,
		"\u1112\u1161":           `\u1112\u1161`,
		"\u202ex":                `\u202ex`,
		"\xff":                   `\xff`,
	} {
		if got := safe(in); got != want {
			t.Errorf("safe(%q) = %q, want %q", in, got, want)
		}
	}
	if got := safe(strings.Repeat("漢", 1000)); width(got) > maxName || strings.Contains(got, `\x`) {
		t.Errorf("a long name is %d columns wide", width(got))
	}
}

func TestNumbers(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{number(0), "0"}, {number(999), "999"}, {number(1234567), "1,234,567"}, {number(12_345_678), "12.3M"}, {number(1 << 63), "9223372T"},
		{percent(1, 0), "0%"}, {percent(1, 3), "33%"}, {percent(1, 300), "0.3%"}, {percent(1, 1e6), "<0.1%"}, {percent(3, 1), "300%"},
		{bar(0, 10, 5), ""}, {bar(1, 1e9, 5), "▏"}, {bar(5, 10, 4), "██"}, {bar(20, 10, 4), "████"},
		{trend([]float64{1, 2, 3}, 2), "▁█"}, {trend([]float64{5, 5}, 9), "▁▁"},
		{clipLeft("abcdef", 4), "…def"}, {clip("abcdef", 4), "abc…"}, {pad("ab", 4, true), "  ab"}, {pad("漢字", 3, false), "漢…"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
}
