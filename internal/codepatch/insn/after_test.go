package insn

import "testing"

func TestAfterCall(t *testing.T) {
	type place struct {
		offset   int
		kind     SiteKind
		emulated bool
	}
	call := "e8fb000000 call"
	for _, test := range []struct {
		name  string
		code  []string
		words int
		want  []place
	}{
		{"branch", []string{call, "4885db test rbx, rbx", "7400 je"}, 2, []place{{5, SiteBody, false}, {8, SiteBranch, true}}},
		{"stores", []string{call, "4889442468 mov rax, 0x68(rsp)", "31c0 xor eax, eax", "7400 je"}, 2, []place{{5, SiteBody, false}, {5, SiteBody, false}}},
		{"short and long", []string{call, "4885db test rbx, rbx", "4889842478010000 mov rax, 0x178(rsp)", "7400 je"}, 2, []place{{8, SiteBody, false}, {16, SiteBranch, true}}},
		{"result not wanted", []string{call, "4889442468 mov rax, 0x68(rsp)", "31c0 xor eax, eax", "7400 je"}, 0, []place{{5, SiteBody, false}, {12, SiteBranch, true}}},
		{"a register of stubs", []string{call, "4d89d4 mov r10, r12", "4889842478010000 mov rax, 0x178(rsp)", "7400 je"}, 2, []place{{5, SiteBody, false}, {16, SiteBranch, true}}},
		{"at once", []string{call, "90 nop"}, 4, []place{{5, SiteNop, true}, {5, SiteNop, true}}},
		{"end of the frame", []string{call, "4883c418 add 0x18, rsp", "5d pop rbp", "c3 ret"}, 1, []place{{5, SiteBody, false}, {5, SiteBody, false}}},
		{"another way", []string{call, "4885db test rbx, rbx", "75fb jne to the test"}, 2, nil},
		{"another way later", []string{call, "4885db test rbx, rbx", "4885db test rbx, rbx", "75fb jne to the test"}, 2, []place{{5, SiteBody, false}, {5, SiteBody, false}}},
	} {
		c := assemble(t, AMD64, test.code...)
		got, err := AfterCall(c, 22, test.words, c.Entry)
		if err != nil {
			t.Fatal(err)
		}
		var places []place
		for _, s := range got {
			places = append(places, place{s.Offset, s.Kind, s.Emulated})
		}
		if len(places) != len(test.want) {
			t.Errorf("%s: %+v, want %+v", test.name, places, test.want)
			continue
		}
		for i, p := range places {
			if p != test.want[i] {
				t.Errorf("%s: %+v, want %+v", test.name, places, test.want)
			}
		}
	}
	c := assemble(t, ARM64, "40000094 bl", "600e00f9 str x0, [x19, #24]", "40000054 b.eq", "c0035fd6 ret")
	if got, err := AfterCall(c, 22, 1, c.Entry); err != nil || len(got) != 2 || got[0].Offset != 4 || got[1].Offset != 8 || !got[1].Emulated {
		t.Errorf("arm64: %+v, %v", got, err)
	}
	c = assemble(t, AMD64, call, "90 nop")
	if got, err := AfterCall(c, 16, 1, c.Entry); err != nil || got != nil {
		t.Errorf("results on the stack: %+v, %v", got, err)
	}
}
