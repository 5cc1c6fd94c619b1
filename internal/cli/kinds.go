package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loupe-go/loupe/event"
)

// kindGroup is a set of kinds that --kinds takes by name.
type kindGroup struct {
	name  string
	kinds event.Kinds
}

// kindGroups returns the groups that --kinds takes: those of the table of kinds, and sets of several groups.
func kindGroups() []kindGroup {
	groups := []kindGroup{{"default", event.KindsDefault}, {"all", event.KindsAll.Union(event.KindsMemory)}}
	for _, g := range event.Groups() {
		if selectable().Contains(g.Kinds()) {
			groups = append(groups, kindGroup{string(g), g.Kinds()})
		}
	}
	return groups
}

// selectable returns the kinds that a user can select by name. The kinds of the stream are always reported, and GoSwitch
// is only counted.
func selectable() event.Kinds {
	var kinds event.Kinds
	for _, k := range event.KindsAll.Union(event.KindsMemory).Without(event.GroupStream.Kinds()).List() {
		if k.Describe().Sources&(event.FromProcess|event.FromMemory) != 0 {
			kinds = kinds.Union(event.KindsOf(k))
		}
	}
	return kinds
}

// kindsHelp is the part of a help text that explains the names that --kinds takes.
func kindsHelp() string {
	var b strings.Builder
	b.WriteString("KINDS are names of events, such as GoBlock, or groups of them:\n")
	line := func(name, meaning string) {
		const column, width = 13, 80
		fmt.Fprintf(&b, "  %-9s ", name)
		used := column
		for word := range strings.FieldsSeq(meaning) {
			if used += 1 + len(word); used-1 > width {
				fmt.Fprintf(&b, "\n%*s", column-1, "")
				used = column + 1 + len(word)
			}
			b.WriteString(" " + word)
		}
		b.WriteByte('\n')
	}
	var standard []string
	for _, g := range kindGroups()[2:] {
		line(g.name, strings.ReplaceAll(g.kinds.String(), ",", " "))
		if event.KindsDefault.Contains(g.kinds) {
			standard = append(standard, g.name)
		}
	}
	line("default", strings.Join(standard, " and "))
	line("all", "everything")
	return b.String()
}

// kindsFlag is the flag --kinds.
type kindsFlag struct {
	names string
	kinds event.Kinds
}

func (k *kindsFlag) String() string { return k.names }
func (k *kindsFlag) Type() string   { return "kinds" }

func (k *kindsFlag) Set(names string) error {
	var set event.Kinds
	for _, name := range strings.Split(names, ",") {
		kinds, ok := kindsNamed(strings.TrimSpace(name))
		if !ok {
			return fmt.Errorf("unknown kind %q: must be one of %s", name, strings.Join(kindNames(), ", "))
		}
		set = set.Union(kinds)
	}
	k.names, k.kinds = names, set
	return nil
}

// kindsNamed returns the kinds of a name of one or of a group, letter case ignored.
func kindsNamed(name string) (event.Kinds, bool) {
	for _, g := range kindGroups() {
		if strings.EqualFold(g.name, name) {
			return g.kinds, true
		}
	}
	for _, k := range selectable().List() {
		if strings.EqualFold(k.String(), name) {
			return event.KindsOf(k), true
		}
	}
	return event.Kinds{}, false
}

// kindNames lists what --kinds takes.
func kindNames() []string {
	var names []string
	for _, g := range kindGroups() {
		names = append(names, g.name)
	}
	for _, k := range selectable().List() {
		names = append(names, k.String())
	}
	return names
}

// completeKinds offers the names that can follow those that are there.
func completeKinds(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	before := typed[:strings.LastIndexByte(typed, ',')+1]
	given := strings.Split(before, ",")
	var offers []string
	for _, name := range kindNames() {
		if !slices.Contains(given, name) {
			offers = append(offers, before+name)
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
