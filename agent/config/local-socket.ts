/** Where `berth pods` and `berth status` find the agent, below its root directory. */
export const localSocket = "berth.sock";
