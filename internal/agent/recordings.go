package agent

import (
	"context"

	"github.com/loupe-go/loupe/internal/agent/config"
	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/spool"
	"github.com/loupe-go/loupe/internal/agent/target"
)

// Results of recordings, as the label result of metric.Recordings has them.
const (
	recordWritten = "written"
	recordDropped = "dropped"
	recordFailed  = "failed"
)

// openRecordings opens the directory of recordings, or returns nil if there is none.
func openRecordings(c *config.Config) (*spool.Dir, error) {
	if c.Recordings.Directory == "" {
		return nil, nil
	}
	return spool.Open("recording", ".trace", c.Recordings.Directory, int64(c.Recordings.MaxBytes))
}

// recordingName returns the name of the recording of an anomaly, or an empty string if there are no recordings.
func (a *Agent) recordingName(id metric.Identity, alert string) string {
	a.mu.Lock()
	dir := a.recordings
	a.mu.Unlock()
	if dir == nil {
		return ""
	}
	return dir.Name(&id, alert)
}

// record writes a recording.
func (a *Agent) record(r target.Recording) {
	a.mu.Lock()
	dir := a.recordings
	a.mu.Unlock()
	result := recordWritten
	switch {
	case r.Err != nil:
		result = recordFailed
		a.log.Warn("there is no recording of an anomaly", "recording", r.Name, "err", r.Err)
	case dir == nil: // the configuration has changed meanwhile
		result = recordDropped
	default:
		if err := dir.Write(context.Background(), r.Name, r.Data); err != nil {
			result = recordDropped
			a.log.Error("a recording was not written", "recording", r.Name, "err", err)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.recorded[result]++
}
