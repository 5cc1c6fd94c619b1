//go:build !amd64 && !arm64

package inline

import "errors"

const readDelay = 0

func ticks() uint64 { return 0 }

func checkTicks() error { return errors.New("no probes for this architecture") }
