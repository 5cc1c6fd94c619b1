package uprobe

// trialPlace is the instruction of hit that has the probe.
var trialPlace = []byte{0x01, 0x00, 0x00, 0x14}
