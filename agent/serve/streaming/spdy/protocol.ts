// The numbers of SPDY/3.1 (https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/).

export const SPDY_VERSION = 3;

/** The flag of a frame that is the sender's last one on its stream. */
export const FIN = 0x01;

export const ControlType = { synStream: 1, synReply: 2, rstStream: 3, ping: 6, goAway: 7 } as const;

/** The status of RST_STREAM that says that the creator of a stream no longer needs it. */
export const CANCEL = 5;
