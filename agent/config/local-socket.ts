/** The socket, below the root directory, on which the agent answers `berth pods` and `berth status`. */
export const LOCAL_SOCKET = "berth.sock";
