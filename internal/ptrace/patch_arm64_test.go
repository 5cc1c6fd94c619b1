package ptrace

// patchAndBack writes code. There is no instruction to be replaced yet.
func patchAndBack(s *Stopped, code uint64) error { return s.Write(code, wayBack) }
