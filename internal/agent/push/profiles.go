package push

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/loupe-go/loupe/internal/agent/metric"
	"github.com/loupe-go/loupe/internal/agent/spool"
	"github.com/loupe-go/loupe/internal/export/otlp"
)

// Bounds of the queue of profiles. Profiles wait in the compressed form of pprof.
const (
	maxProfiles     = 512
	maxProfileBytes = 16 << 20
)

// An item is a profile in the queue.
type item struct {
	id   *metric.Identity
	res  *resource.Resource
	kind string
	data []byte // in the form of a file of pprof
}

// profiles exports profiles by OTLP, or writes them to files.
type profiles struct {
	queue   *otlp.Batches[item]
	waiting atomic.Int64  // bytes in the queue
	dropped atomic.Uint64 // profiles that were not added to the queue for another reason than its length
	useless atomic.Bool   // the back end does not take profiles, and there is no directory

	log    *slog.Logger
	scope  instrumentation.Scope
	sender *sender    // nil: profiles are not exported by OTLP, or the back end does not take them
	files  *spool.Dir // nil: there is no directory
}

// newProfiles returns nil if profiles are neither exported nor written.
func newProfiles(config *otlp.Config, o *Options, scope instrumentation.Scope) (*profiles, error) {
	p := &profiles{log: o.Log, scope: scope}
	c, ok, err := config.Connection(otlp.Profiles)
	if err != nil {
		return nil, err
	}
	if o.Directory != "" {
		if p.files, err = spool.Open("profile", ".pb.gz", o.Directory, cmp.Or(o.MaxBytes, defaultMaxBytes)); err != nil {
			return nil, err
		}
	}
	if ok {
		if p.sender, err = newSender(c); err != nil {
			return nil, fmt.Errorf("cannot export profiles to %v: %w", c, err)
		}
	}
	if p.sender == nil && p.files == nil {
		return nil, nil
	}
	p.queue = otlp.NewBatches(otlp.Noun{One: "profile", Many: "profiles"}, []otlp.Exporter[item]{p}, otlp.QueueOptions{
		Size: maxProfiles, Batch: 1, Timeout: config.Queue.Timeout, Log: o.Log,
	})
	return p, nil
}

// add adds a profile to the queue.
func (p *profiles) add(id *metric.Identity, res *resource.Resource, kind string, prof *profile.Profile) {
	data, err := []byte(nil), error(nil)
	if !p.useless.Load() {
		data, err = compress(prof)
	}
	if data == nil || err != nil {
		p.dropped.Add(1)
		return
	}
	n := int64(len(data))
	if p.waiting.Add(n) > maxProfileBytes {
		p.waiting.Add(-n)
		p.dropped.Add(1)
	} else if !p.queue.Add(item{id, res, kind, data}) {
		p.waiting.Add(-n)
	}
}

// compressors are reused because each has a megabyte of tables.
var compressors = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// compress returns a profile in the form of a file of pprof.
func compress(p *profile.Profile) ([]byte, error) {
	var data bytes.Buffer
	z := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(&data)
	if err := p.WriteUncompressed(z); err != nil {
		return nil, err
	}
	err := z.Close()
	return data.Bytes(), err
}

// Export exports or writes a profile. Only the queue calls it.
func (p *profiles) Export(ctx context.Context, batch []item) error {
	i := batch[0]
	defer p.waiting.Add(-int64(len(i.data)))
	if p.sender != nil {
		err := p.send(ctx, i)
		if !unsupported(err) {
			return err
		}
		if p.files == nil {
			p.useless.Store(true)
			return fmt.Errorf("the back end does not support profiles: set output.profiles.directory to write them to files: %w", err)
		}
		p.log.Warn("the back end does not support profiles: writing them to files",
			"exporter", p.sender.String(), "directory", p.files.Path(), "error", oneLine(err))
		p.sender.close()
		p.sender = nil
	}
	return p.files.Write(ctx, p.files.Name(i.id, i.kind), i.data)
}

func (p *profiles) send(ctx context.Context, i item) error {
	prof, err := profile.ParseData(i.data)
	if err != nil {
		return err
	}
	return p.sender.send(ctx, pprofileotlp.NewExportRequestFromProfiles(otlpProfiles(prof, i.res, p.scope)))
}

// Shutdown closes the connection. Only the queue calls it.
func (p *profiles) Shutdown(context.Context) error {
	if p.sender != nil {
		p.sender.close()
	}
	return nil
}

// String returns the name of the exporter in messages.
func (p *profiles) String() string {
	switch {
	case p.files == nil:
		return p.sender.String()
	case p.sender == nil:
		return "directory " + p.files.Path()
	}
	return p.sender.String() + ", or directory " + p.files.Path()
}

func (p *profiles) read() Stats {
	s := Stats{Stats: p.queue.Stats()}
	s.Dropped += p.dropped.Load()
	if s.Since, s.Err, _ = p.queue.Failing(); p.useless.Load() {
		s.Since = time.Time{} // it will not work again, and the user knows
	}
	return s
}

func (p *profiles) close(ctx context.Context) error { return p.queue.Close(ctx) }
