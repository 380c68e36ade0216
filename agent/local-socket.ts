/** Where `berth pods` finds the agent, below its root directory. */
export const localSocket = "berth.sock";
