package mongo

import "testing"

// document returns elements as a document.
func document(elements string) []byte {
	return append([]byte{byte(len(elements) + 5), 0, 0, 0}, elements+"\x00"...)
}

func TestCollectionOf(t *testing.T) {
	const find, more = "\x02find\x00\x06\x00\x00\x00users\x00", "\x12getMore\x00\x01\x02\x03\x04\x05\x06\x07\x08"
	for _, test := range []struct{ command, elements, want string }{
		{"find", find, "users"},
		{"find", find + "\x02x\x00\x02\x00\x00\x00y\x00", "users"},
		{"find", "\x02count\x00\x06\x00\x00\x00users\x00", ""},
		{"find", "\x10find\x00\x01\x00\x00\x00", ""},
		{"usersInfo", "\x02usersInfo\x00\x06\x00\x00\x00alice\x00", ""},
		{"getMore", more + "\x02collection\x00\x02\x00\x00\x00c\x00", "c"},
		{"getMore", more + "\x02batch\x00\x02\x00\x00\x00c\x00", ""},
		{"getMore", more[:12], ""},
		{"find", "\x02find\x00\xff\xff\xff\xffusers\x00", ""},
		{"find", "\x02find\x00\x00\x00\x00\x00", ""},
		{"find", "\x02find", ""},
		{"find", "", ""},
	} {
		if got := collectionOf(test.command, document(test.elements)); got != test.want {
			t.Errorf("%s %q: %q, want %q", test.command, test.elements, got, test.want)
		}
	}
	if got := commandOf(document(find)); got != "find" {
		t.Errorf("command %q", got)
	}
	for i := range document(find) {
		collectionOf("find", document(find)[:i])
	}
}

func FuzzCollectionOf(f *testing.F) {
	f.Add("find", []byte("\x10\x00\x00\x00\x02find\x00\x02\x00\x00\x00c\x00\x00"))
	f.Fuzz(func(t *testing.T, command string, text []byte) {
		if got := collectionOf(command, text); len(got) > len(text) {
			t.Errorf("%q of %q", got, text)
		}
	})
}
