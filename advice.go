package loupe

import (
	"cmp"
	"errors"
	"strings"

	"github.com/loupe-go/loupe/internal/doctor"
	"github.com/loupe-go/loupe/internal/probe"
	"github.com/loupe-go/loupe/internal/ptrace"
)

// Advise returns what a user can do about an error of [Attach], [OpenProcess], [Process.Snapshot] or [Process.CPUProfile], such as "run with
// sudo", and the cause if the error does not contain it. Both can be empty. The pid is that of the target, or zero if there is
// no process. The engine is that of Options, or empty if the error is not one of Attach.
//
// Advise checks what the calling process is permitted to do, which can take some milliseconds.
func Advise(err error, pid int, engine Engine) (cause, remedy string) {
	var traced *ptrace.TracedError
	permission, unsupported := errors.Is(err, ErrPermission), errors.Is(err, ErrUnsupported)
	switch {
	case errors.As(err, &traced):
		return "", doctor.Detach(ptrace.TracerWords(traced.Tracer, traced.Name), engine == EngineInline)
	case errors.Is(err, ErrUnreadable):
		return "", doctor.Remedy(err)
	case permission && engine != "" && engine != EngineInline && errors.Is(err, probe.ErrPermission):
		if missing := missingFor(engine); missing == "" {
			return "", "run loupe doctor to see what is missing"
		} else if engine == EngineUprobe {
			return "", "run with sudo, or use --engine inline"
		}
		return "", "run with sudo"
	case permission && engine == "" && errors.Is(err, probe.ErrPermission): // of a CPU profile
		return "", "run with sudo"
	case permission && pid != 0:
		return doctor.GatherAccess("/").WhyDenied(doctor.LookAt(pid), engine == EngineUprobe)
	case engine != "" && unsupported:
		if missing := missingFor(engine); missing != "" {
			return "", "live events require " + missing
		}
		return "", "run loupe doctor to see what can be observed"
	}
	return "", doctor.Remedy(err)
}

// missingFor returns what an engine requires and does not have on this machine; empty if nothing is missing.
func missingFor(engine Engine) string {
	if engine == EngineAuto {
		engine = EngineUprobe
	}
	ability, _ := CheckMachine().Ability(string(cmp.Or(engine, EngineUprobe)))
	return strings.Join(ability.Missing, "; ")
}
