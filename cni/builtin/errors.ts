/** The codes of this plugin, beside those of the specification. */
export const builtinCodes = {
  /** The kernel refuses a request. */
  kernel: 100,
  /** No address is left. */
  exhausted: 101,
  /** The requested address is taken, or in no range. */
  address: 102,
  /** The link with the bridge's name is no bridge, or has pods of another network, or an address of another program. */
  bridge: 103,
  /** Another pod has the host port. */
  hostPort: 104,
  /** CHECK finds a difference. */
  mismatch: 105,
  /** The network belongs to another cache of results. */
  cache: 106,
  /** A subnet contains an address, a gateway or a network that the node reaches over another link. */
  subnet: 107,
} as const;
