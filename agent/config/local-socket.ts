/** The socket, below the root directory, on which the agent answers `berth pods` and `berth status`. */
export const LOCAL_SOCKET = "berth.sock";

/** The socket, below the root directory, on which the agent starts the sessions of `berth exec`. */
export const EXEC_SOCKET = "exec.sock";

/** The socket, below the root directory, on which the agent executes networks for the delegate of a container runtime. */
export const NETWORK_SOCKET = "cni.sock";
