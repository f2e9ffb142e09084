/* Constants of the wire protocol, each with the reason for its value. */
#ifndef TMESH_PROTO_LIMITS_H
#define TMESH_PROTO_LIMITS_H

#include <stdint.h>

#define TMESH_PROTOCOL_VERSION 1u
#define TMESH_FRAME_HEADER_BYTES 16u
/* Any frame. Deployed peers refuse more. */
#define TMESH_PAYLOAD_MAX_BYTES 1048576u
/* One protocol frame is one WebSocket message. */
#define TMESH_MESSAGE_MAX_BYTES (TMESH_PAYLOAD_MAX_BYTES + TMESH_FRAME_HEADER_BYTES)
/* Hello, metadata and ack frames (types 9-11, 16-18) and trace frames (12-14). */
#define TMESH_METADATA_MAX_BYTES 32768u
#define TMESH_TRACE_MAX_BYTES 32768u
#define TMESH_OPEN_RESULT_MAX_BYTES 1024u
/* We refuse a longer OPEN_STREAM payload for that stream only: the fields are
 * bounded (host 255, agent id 255, names 255) and `metadata` is small. */
#define TMESH_OPEN_STREAM_MAX_BYTES 16384u
/* Advisory text of RESET and GOAWAY, opaque bytes of PING: what we keep of it. */
#define TMESH_ADVISORY_MAX_BYTES 1024u
#define TMESH_DATAGRAM_MAX_BYTES 65536u
/* DATA payload of TCP-like streams, also the quantum of the fair writer. */
#define TMESH_DATA_MAX_BYTES 32768u

#define TMESH_WINDOW_INITIAL_BYTES 262144u
#define TMESH_WINDOW_THRESHOLD_BYTES 131072u
/* Credit from a peer without the window growth extension saturates here: a V9
 * server credits the same bytes twice and would overflow after 4 GiB. */
#define TMESH_WINDOW_LEGACY_CAP_BYTES 524288u
/* Early data between OPEN_STREAM and OPEN_RESULT (stream_early_data.v1). */
#define TMESH_EARLY_DATA_MAX_BYTES 16384u

/* A deployed server ends a link after this many opens. */
#define TMESH_OPENS_PER_LINK_MAX 65536u
#define TMESH_CONTROL_QUEUE_MAX_FRAMES 64u
/* Width of the "already seen" bitmap of stream ids. */
#define TMESH_SEEN_WINDOW_IDS 4096u

#endif
