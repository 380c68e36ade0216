import { shellWord } from "../../../../proto/shell-word.ts";

/** The container runtime that suggested commands ask. */
export interface AskedRuntime {
  /** As it names itself: `containerd`, `cri-o`; empty until it has responded. */
  readonly name: string;
  readonly endpoint: string;
}

/** crictl and ctr find a runtime on this socket by themselves. */
const USUAL_SOCKET = "/run/containerd/containerd.sock";

/** The commands as they ask this runtime. ctr speaks to containerd alone: other runtimes get none of its commands. */
export const runtimeCommands = (commands: readonly string[], { name, endpoint }: AskedRuntime): readonly string[] =>
  commands
    .filter((command) => name === "containerd" || !command.startsWith("ctr "))
    .map((command) => withEndpoint(command, endpoint));

/** The command with the endpoint of this runtime, if it is one of crictl or ctr and they would ask another runtime. */
export function withEndpoint(command: string, endpoint: string): string {
  const path = endpoint.replace(/^unix:\/\//, "");
  if (path === USUAL_SOCKET) return command;
  return command
    .replace(/^crictl /, () => `crictl --runtime-endpoint ${shellWord(`unix://${path}`)} `)
    .replace(/^ctr /, () => `ctr --address ${shellWord(path)} `);
}
