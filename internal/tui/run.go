package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/loupe-go/loupe/live"
)

// RunOptions says how a Model is run in a terminal.
type RunOptions struct {
	In      io.Reader // the keyboard; nil for the terminal that the process has
	Out     io.Writer // the terminal
	Colours bool

	// Interrupted, if not nil, is called when Ctrl-C is typed, even while the terminal accepts no output and the view waits.
	Interrupted func()

	// News are Target and Ended messages for the Model.
	News <-chan any
}

// Run drives a model in a terminal until the user quits or the context is done. Pictures are taken beside it: a source
// that is slow, or a picture that takes long, does not keep keys waiting.
func Run(ctx context.Context, m *Model, s Source, opt RunOptions) error {
	options := []tea.ProgramOption{tea.WithOutput(opt.Out), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond)}
	if opt.In != nil {
		in := opt.In
		if file, ok := in.(*os.File); ok && opt.Interrupted != nil {
			in = keyboard{file, opt.Interrupted}
		}
		options = append(options, tea.WithInput(in))
	}
	if !opt.Colours {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	program := tea.NewProgram(&driver{model: m, source: s}, options...)
	defer context.AfterFunc(ctx, program.Quit)()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case news, more := <-opt.News:
				if !more {
					return
				}
				program.Send(news)
			case <-ended:
				return
			}
		}
	}()
	if _, err := program.Run(); err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("live view: %w", err)
	}
	return nil
}

// keyboard reads keys, and calls a function for each Ctrl-C.
type keyboard struct {
	*os.File
	interrupted func()
}

func (k keyboard) Read(b []byte) (int, error) {
	const plain, kitty = "\x03", "\x1b[99;5u" // the latter by the kitty keyboard protocol
	n, err := k.File.Read(b)
	if bytes.Contains(b[:n], []byte(plain)) || bytes.Contains(b[:n], []byte(kitty)) {
		k.interrupted()
	}
	return n, err
}

// framesPerSecond bounds how often the screen is written.
const framesPerSecond = 30

// driver is the Model as Bubble Tea wants it, and decides when pictures are taken. At most one is taken at a time.
type driver struct {
	model  *Model
	source Source

	busy  bool // a picture is being taken
	again bool // and another one is wanted after it
	taken int
	tick  int // number of the last tick that was ordered; earlier ones are void
}

// taken is a picture, and how long it took.
type taken struct {
	picture *live.Picture
	cost    time.Duration
}

// ticked says that it is time for a picture.
type ticked int

// Init implements tea.Model.
func (d *driver) Init() tea.Cmd { return d.take() }

// View implements tea.Model.
func (d *driver) View() tea.View {
	v := tea.NewView(d.model.View(d.model.width, d.model.height))
	v.AltScreen = true
	return v
}

// Update implements tea.Model.
func (d *driver) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyPressMsg:
		return d, d.act(d.model.Update(Key{Name: msg.String(), Text: msg.Text}))
	case tea.PasteMsg:
		if d.model.typing {
			return d, d.act(d.model.Update(Key{Text: strings.TrimSpace(msg.Content)}))
		}
	case tea.WindowSizeMsg:
		return d, d.act(d.model.Update(Resize{msg.Width, msg.Height}))
	case Target, Ended:
		return d, d.act(d.model.Update(msg))
	case ticked:
		if int(msg) == d.tick && !d.model.Paused() && d.model.ended == nil {
			return d, d.take()
		}
	case taken:
		d.busy = false
		d.taken++
		d.model.Update(msg.picture)
		if d.again {
			d.again = false
			return d, d.take()
		}
		return d, d.later(msg.cost)
	}
	return d, nil
}

// act does what the Model wants.
func (d *driver) act(a Action) tea.Cmd {
	switch {
	case a.Quit:
		return tea.Quit
	case a.Want:
		return d.take()
	}
	return nil
}

// take takes a picture, or another one after the one that is being taken.
func (d *driver) take() tea.Cmd {
	if d.busy {
		d.again = true
		return nil
	}
	d.busy = true
	query, window := d.model.Query(), d.model.Interval()/2
	return func() tea.Msg {
		began := time.Now()
		d.source.Window(window)
		return taken{d.source.Take(query), time.Since(began)}
	}
}

// The second picture comes soon, since the first one has no rates. Later ones leave most of the time to the events when
// they take long.
const (
	soon     = 300 * time.Millisecond
	costly   = 5 // a picture takes at most one part in so many of the time
	minDelay = 10 * time.Millisecond
)

// later orders the next picture.
func (d *driver) later(cost time.Duration) tea.Cmd {
	interval := d.model.Interval()
	if d.taken == 1 {
		interval = min(interval, soon)
	}
	d.tick++
	tick := ticked(d.tick)
	return tea.Tick(max(interval-cost, cost*(costly-1), minDelay), func(time.Time) tea.Msg { return tick })
}
