package redis

import "strings"

const (
	maxArgs  = 6  // arguments that are sent, with the name of the command; ARGS in probes.c
	maxShown = 16 // arguments of a text
)

// A pattern is which arguments of a command are keys.
type pattern uint8

const (
	first  pattern = iota + 1 // the first one
	two                       // the first two
	all                       // all
	most                      // all but the last
	pairs                     // every second one, from the first on
	second                    // the second one; the first is the name of a subcommand
	sub                       // none; the first is the name of a subcommand
)

// patterns are the commands with keys. Those that are not listed may have keys, but not in the same place, or are not known.
var patterns = func() map[string]pattern {
	m := map[string]pattern{}
	for p, names := range map[pattern]string{
		first: "append bitcount bitfield bitfield_ro bitpos decr decrby dump expire expireat expiretime " +
			"geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch " +
			"get getbit getdel getex getrange getset hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen " +
			"hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl hvals " +
			"incr incrby incrbyfloat lindex linsert llen lpop lpos lpush lpushx lrange lrem lset ltrim " +
			"persist pexpire pexpireat pexpiretime pfadd psetex pttl restore rpop rpush rpushx " +
			"sadd scard set setbit setex setnx setrange sismember smembers smismember sort sort_ro spop srandmember srem sscan strlen substr ttl type " +
			"xack xadd xautoclaim xclaim xdel xlen xpending xrange xrevrange xtrim " +
			"zadd zcard zcount zincrby zlexcount zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrank zrem zremrangebylex " +
			"zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore " +
			"json.arrappend json.arrlen json.del json.get json.numincrby json.set json.type ts.add ts.get ts.range " +
			"bf.add bf.exists bf.madd cf.add cf.exists",
		two:    "blmove brpoplpush copy geosearchstore lmove rename renamenx rpoplpush smove zrangestore",
		all:    "del exists mget pfcount pfmerge sdiff sdiffstore sinter sinterstore sunion sunionstore touch unlink watch",
		most:   "blpop brpop bzpopmax bzpopmin",
		pairs:  "mset msetnx",
		second: "memory object xgroup xinfo",
		sub:    "acl client cluster command config debug function latency module pubsub script sentinel slowlog",
	} {
		for name := range strings.FieldsSeq(names) {
			m[name] = p
		}
	}
	return m
}()

// shows reports whether an argument is shown: 1 is the first one after the name of the command, count is the number of arguments with the
// name.
func (p pattern) shows(i, count uint64) bool {
	switch p {
	case first, sub:
		return i == 1
	case two, second:
		return i <= 2
	case all:
		return true
	case most:
		return i < count-1
	case pairs:
		return i%2 == 1
	}
	return false
}

// queryText returns the text of a command, with question marks instead of arguments that are not keys. The first arguments are given, of
// count; an empty one is not a text.
func queryText(args []string, count uint64) string {
	var b strings.Builder
	b.WriteString(args[0])
	p := patterns[strings.ToLower(args[0])]
	for i := uint64(1); i < count; i++ {
		switch {
		case i >= maxShown:
			b.WriteString(" ...")
			return b.String()
		case i < uint64(len(args)) && args[i] != "" && p.shows(i, count):
			b.WriteString(" " + args[i])
		default:
			b.WriteString(" ?")
		}
	}
	return b.String()
}
