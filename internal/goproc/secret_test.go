package goproc_test

import (
	"context"
	"slices"
	"testing"

	"github.com/loupe-go/loupe/internal/goproc"
	"github.com/loupe-go/loupe/internal/testtarget"
)

// TestSecret checks that the labels of a goroutine in secret mode are not read.
func TestSecret(t *testing.T) {
	for _, release := range testtarget.Among(t, "1.26.11", testtarget.Latest()) {
		t.Run(release, func(t *testing.T) {
			target := testtarget.Start(t, testtarget.Build(t, testtarget.Spec{Program: "vault", Go: release, Stripped: true, Experiment: "runtimesecret"}))
			target.Command("wait")
			p, err := goproc.Open(target.PID(), goproc.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			snap, err := p.Snapshot(context.Background(), goproc.SnapshotOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, g := range snap.Goroutines {
				for _, f := range g.Stack {
					if f.Func == "main.wait" {
						got = append(got, g.Labels["place"])
					}
				}
			}
			slices.Sort(got)
			if want := []string{"", "open"}; !slices.Equal(got, want) {
				t.Errorf("labels %q, want %q", got, want)
			}
		})
	}
}
