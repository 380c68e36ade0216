/** The command of Berth's own program that makes one bind mount: `bind-beneath FOLDER PATH TARGET`. It is for the agent alone. */
export const BIND_BENEATH = "bind-beneath";

/** Its exit code if the mount cannot be made. */
export const BIND_FAILED = 3;
