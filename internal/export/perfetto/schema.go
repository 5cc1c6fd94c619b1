package perfetto

// Field numbers of Perfetto's schema, by message. The files are those below protos/perfetto in Perfetto's repository.

// message Trace: trace/trace.proto.
const tracePacket = 1

// message TracePacket: trace/trace_packet.proto.
const (
	packetClockSnapshot  = 6
	packetTimestamp      = 8
	packetSequenceID     = 10 // trusted_packet_sequence_id
	packetTrackEvent     = 11
	packetInternedData   = 12
	packetSequenceFlags  = 13
	packetDefaults       = 59 // trace_packet_defaults
	packetTrack          = 60 // track_descriptor
	packetFirst          = 87 // first_packet_on_sequence
	sequenceStateCleared = 1  // SEQ_INCREMENTAL_STATE_CLEARED
	sequenceNeedsState   = 2  // SEQ_NEEDS_INCREMENTAL_STATE
)

// message TracePacketDefaults: trace/trace_packet_defaults.proto.
const defaultsClockID = 58 // timestamp_clock_id

// message ClockSnapshot: trace/clock_snapshot.proto; the clocks' numbers: common/builtin_clock.proto.
const (
	snapshotClocks       = 1
	snapshotPrimaryClock = 2 // primary_trace_clock
	clockID              = 1 // message Clock
	clockTimestamp       = 2
	clockRealtime        = 1  // BUILTIN_CLOCK_REALTIME
	clockTraceFile       = 11 // BUILTIN_CLOCK_TRACE_FILE, of the file alone
)

// message TrackDescriptor: trace/track_event/track_descriptor.proto.
const (
	trackUUID           = 1
	trackName           = 2
	trackProcess        = 3
	trackThread         = 4
	trackParent         = 5 // parent_uuid
	trackCounter        = 8
	trackChildOrdering  = 11
	trackRank           = 12 // sibling_order_rank
	trackMerge          = 15 // sibling_merge_behavior
	orderChronological  = 2  // CHRONOLOGICAL
	orderExplicit       = 3  // EXPLICIT
	mergeNone           = 2  // SIBLING_MERGE_BEHAVIOR_NONE
	processPID          = 1  // message ProcessDescriptor: trace/track_event/process_descriptor.proto
	processName         = 6
	threadPID           = 1 // message ThreadDescriptor: trace/track_event/thread_descriptor.proto
	threadTID           = 2
	counterUnit         = 3 // message CounterDescriptor: trace/track_event/counter_descriptor.proto
	counterUnitCount    = 2 // UNIT_COUNT
	counterUnitSizeByte = 3 // UNIT_SIZE_BYTES
)

// message TrackEvent: trace/track_event/track_event.proto.
const (
	eventCategoryIID      = 3 // category_iids
	eventAnnotation       = 4 // debug_annotations
	eventType             = 9
	eventNameIID          = 10
	eventTrack            = 11 // track_uuid
	eventName             = 23
	eventCounterValue     = 30
	eventFlow             = 47 // flow_ids
	eventFlowTerminating  = 48 // terminating_flow_ids
	eventCallstackIID     = 56
	typeSliceBegin        = 1 // TYPE_SLICE_BEGIN
	typeSliceEnd          = 2
	typeInstant           = 3
	typeCounter           = 4
	annotationNameIID     = 1  // message DebugAnnotation: trace/track_event/debug_annotation.proto
	annotationInt         = 4  // int_value
	annotationPointer     = 7  // pointer_value
	annotationStringValue = 17 // string_value_iid
)

// message InternedData: trace/interned_data/interned_data.proto.
const (
	internedCategories = 1 // event_categories: EventCategory
	internedNames      = 2 // event_names: EventName
	internedKeys       = 3 // debug_annotation_names: DebugAnnotationName
	internedFunctions  = 5 // function_names: InternedString
	internedFrames     = 6
	internedCallstacks = 7
	internedSources    = 18 // source_paths: InternedString
	internedStrings    = 29 // debug_annotation_string_values: InternedString
	entryIID           = 1  // of all of them
	entryText          = 2  // of EventCategory, EventName, DebugAnnotationName, InternedString
	frameFunction      = 2  // message Frame: trace/profiling/profile_common.proto; function_name_id
	frameSource        = 5  // source_path_iid
	frameLine          = 6  // line_number
	callstackFrames    = 2  // message Callstack, same file; frame_ids, the outermost first
)
