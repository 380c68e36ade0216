// Runs kubectl as a user does: with pipes, or in a terminal.
import { join } from "node:path";
import { pollUntil } from "../../bed/poll-until.ts";
import { type KubectlVersion, kubectlProgram } from "../../upstream/control-plane.ts";

/** How kubectl speaks to the API server. */
export type StreamingProtocol = "WebSockets" | "SPDY";

/** What a program has written, and its exit code: 128 and the signal if one has ended it. */
export interface ProgramResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

/** A kubectl that runs in a terminal of its own. */
export interface TerminalProgram {
  /** Types a text; `\r` is the Enter key. */
  type(text: string): void;
  resize(columns: number, rows: number): void;
  /** Resolves when the terminal has shown the text. Throws after 15 s with the last that it has shown. */
  sees(text: string): Promise<void>;
  kill(signal: NodeJS.Signals): void;
  readonly exited: Promise<number>;
}

/** One version of kubectl with one protocol. */
export interface KubectlClient {
  readonly name: string;
  readonly version: KubectlVersion;
  /** Starts kubectl with pipes. */
  start(
    args: readonly string[],
    stdin: Uint8Array | "pipe" | "ignore",
  ): Bun.Subprocess<Uint8Array | "pipe" | "ignore", "pipe", "pipe">;
  /** Runs kubectl to its end. */
  run(args: readonly string[], stdin?: Uint8Array | "ignore"): Promise<ProgramResult>;
  /** Starts kubectl in a terminal of this size. */
  startInTerminal(args: readonly string[], columns: number, rows: number): TerminalProgram;
}

export interface KubectlClientOptions {
  readonly version: KubectlVersion;
  readonly protocol: StreamingProtocol;
  readonly kubeconfig: string;
  /** A folder for kubectl's cache. */
  readonly folder: string;
}

const TIMEOUT_MS = 15_000;

/** Unpacks kubectl if necessary. */
export async function createKubectlClient(options: KubectlClientOptions): Promise<KubectlClient> {
  const { version, protocol, kubeconfig, folder } = options;
  const program = await kubectlProgram(version);
  const usesWebSockets = String(protocol === "WebSockets");
  const env = {
    ...process.env,
    KUBECTL_REMOTE_COMMAND_WEBSOCKETS: usesWebSockets,
    KUBECTL_PORT_FORWARD_WEBSOCKETS: usesWebSockets,
  };
  const argv = (args: readonly string[]) => [
    program,
    `--kubeconfig=${kubeconfig}`,
    `--cache-dir=${join(folder, `cache-${version}`)}`,
    ...args,
  ];
  const client: KubectlClient = {
    name: `kubectl ${version} by ${protocol}`,
    version,
    start: (args, stdin) => Bun.spawn(argv(args), { stdin, stdout: "pipe", stderr: "pipe", env }),
    async run(args, stdin = "ignore") {
      const child = client.start(args, stdin);
      const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
      return { stdout, stderr, exitCode };
    },
    startInTerminal: (args, columns, rows) => startInTerminal(argv(args), env, columns, rows),
  };
  return client;
}

function startInTerminal(
  argv: string[],
  env: Readonly<Record<string, string | undefined>>,
  columns: number,
  rows: number,
): TerminalProgram {
  const decoder = new TextDecoder();
  let shown = "";
  const data = (_terminal: Bun.Terminal, bytes: Uint8Array) => {
    shown += decoder.decode(bytes, { stream: true });
  };
  const child = Bun.spawn(argv, { terminal: { cols: columns, rows, data }, env });
  return {
    type: (text) => void child.terminal?.write(text),
    resize: (newColumns, newRows) => child.terminal?.resize(newColumns, newRows),
    async sees(text) {
      await pollUntil(`${text} in the terminal`, TIMEOUT_MS, () => shown.includes(text)).catch((cause: unknown) => {
        throw new Error(
          `the terminal does not show ${JSON.stringify(text)} but ends with ${JSON.stringify(shown.slice(-1000))}`,
          { cause },
        );
      });
    },
    kill: (signal) => child.kill(signal),
    exited: child.exited.finally(() => child.terminal?.close()),
  };
}
