/** The codes of this plugin, beside those of the specification. */
export const builtinCodes = {
  /** The kernel refuses a request. */
  kernel: 100,
  /** No address is left. */
  exhausted: 101,
  /** The requested address is taken, or in no range. */
  address: 102,
  /** A link of another kind, or with another address, has the bridge's name. */
  bridge: 103,
  /** Another pod has the host port. */
  hostPort: 104,
  /** CHECK finds a difference. */
  mismatch: 105,
  /** The network belongs to another cache of results. */
  cache: 106,
  /** The node reaches something in the subnet over another link. */
  subnet: 107,
} as const;
