package realtarget

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// planEtcdServer runs an etcd of one member. The load are RPCs of every kind that gRPC has, and RPCs that fail.
func planEtcdServer(at *site) (*plan, error) {
	p, err := planEtcd(at)
	if err != nil {
		return nil, err
	}
	p.connect, p.loaders = func(context.Context) (client, error) { return dialEtcd(at.addrs[0]) }, 8
	return p, nil
}

// etcdClients is the number of clients so far: each has keys and a lease of its own.
var etcdClients atomic.Int64

// An etcdUser is a client that speaks etcd's gRPC API. It encodes the messages itself.
type etcdUser struct {
	conn  *grpc.ClientConn
	key   string
	lease uint64
}

func dialEtcd(addr string) (client, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{})))
	if err != nil {
		return nil, err
	}
	n := etcdClients.Add(1)
	return &etcdUser{conn: conn, key: fmt.Sprintf("key-%d", n), lease: uint64(1000 + n)}, nil
}

func (u *etcdUser) close() { u.conn.Close() }

// A bytesCodec passes on messages that are encoded already: as []byte and *[]byte.
type bytesCodec struct{}

func (bytesCodec) Name() string                        { return "proto" }
func (bytesCodec) Marshal(message any) ([]byte, error) { return message.([]byte), nil }
func (bytesCodec) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = bytes.Clone(data)
	return nil
}

// Fields of a message in the encoding of Protocol Buffers.
func textField[T string | []byte](number byte, value T) []byte {
	return append(binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(value))), value...)
}

func numberField(number byte, value uint64) []byte {
	return binary.AppendUvarint([]byte{number << 3}, value)
}

// An etcdCall is an RPC and its status.
type etcdCall struct {
	method  string
	message []byte
	want    codes.Code
}

func (u *etcdUser) request(ctx context.Context, n int) error {
	key, value := textField(1, u.key), textField(2, fmt.Sprint(n))
	put := append(bytes.Clone(key), value...)
	for _, c := range []etcdCall{
		{"KV/Put", put, codes.OK},
		{"KV/Range", key, codes.OK},
		{"KV/Txn", textField(2, textField(2, put)), codes.OK},
		{"KV/DeleteRange", key, codes.OK},
		{"KV/Put", value, codes.InvalidArgument},                        // no key
		{"KV/Put", append(put, numberField(3, 999)...), codes.NotFound}, // no such lease
		{"KV/Compact", numberField(1, 1<<40), codes.OutOfRange},
		{"Maintenance/Status", nil, codes.OK},
	} {
		if err := u.call(ctx, c); err != nil {
			return err
		}
	}
	if n%10 != 0 {
		return nil
	}
	if err := u.keepAlive(ctx); err != nil {
		return err
	}
	return u.watch(ctx, put)
}

func (u *etcdUser) call(ctx context.Context, c etcdCall) error {
	var reply []byte
	err := u.conn.Invoke(ctx, "/etcdserverpb."+c.method, c.message, &reply)
	if got := status.Code(err); got != c.want {
		return fmt.Errorf("%s: status %v, want %v: %w", c.method, got, c.want, err)
	}
	return nil
}

// stream opens a stream, and sends and receives a message.
func (u *etcdUser) stream(ctx context.Context, method string, message []byte) (grpc.ClientStream, error) {
	s, err := u.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/etcdserverpb."+method)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(message); err != nil {
		return nil, err
	}
	var reply []byte
	return s, s.RecvMsg(&reply)
}

// keepAlive takes a lease, renews it in a stream that it closes, and gives it back.
func (u *etcdUser) keepAlive(ctx context.Context) error {
	lease := numberField(1, u.lease)
	if err := u.call(ctx, etcdCall{"Lease/LeaseGrant", append(numberField(1, 600), numberField(2, u.lease)...), codes.OK}); err != nil {
		return err
	}
	s, err := u.stream(ctx, "Lease/LeaseKeepAlive", lease)
	if err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for err == nil { // until the end of the stream
		var reply []byte
		err = s.RecvMsg(&reply)
	}
	return u.call(ctx, etcdCall{"Lease/LeaseRevoke", lease, codes.OK})
}

// watch sees a change in a stream, and cancels it.
func (u *etcdUser) watch(ctx context.Context, put []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := u.stream(ctx, "Watch/Watch", textField(1, textField(1, u.key)))
	if err != nil {
		return err
	}
	if err := u.call(ctx, etcdCall{"KV/Put", put, codes.OK}); err != nil {
		return err
	}
	var event []byte
	return s.RecvMsg(&event)
}
