// Another machine beside the node of a network namespace, and web servers that say who asks them.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../../bed/packages.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createTestNamespaces, outputIn } from "../../contract/network-namespaces.ts";
import { script } from "../manifest.ts";

export const node = { ipv4: "192.0.2.1", ipv6: "fd02::1" } as const;
export const machine = { ipv4: "192.0.2.2", ipv6: "fd02::2" } as const;

/** The port of the web servers, and the path at which they answer with their name and the client's address. */
export const serverPort = 8080;
export const clientPath = "/cgi-bin/client";

/** Writes the CGI program of {@link clientPath}. Its header ends with LF alone, as that of most such programs does. */
const writeProgram = (folder: string, name: string) => `mkdir -p ${folder}/cgi-bin
cat > ${folder}${clientPath} <<'END'
#!/bin/sh
echo "Content-Type: text/plain"
echo
client=\${REMOTE_ADDR#[[]}
client=\${client#::ffff:}
echo "${name} \${client%]}"
END
chmod +x ${folder}${clientPath}`;

/** The command of a web server in a pod. */
export const serveClient: readonly string[] = script(
  `${writeProgram("/srv", "$(hostname)")}\nexec httpd -f -p ${serverPort} -h /srv`,
);

/** What a client gets that no server answers. */
export const NO_ANSWER = "no answer";
/** How long one request may take, and all of {@link askCommand}, on a busy machine. */
const LIMIT_SECONDS = 30;
const POD_LIMIT_SECONDS = 300;

/** The command by which a pod asks `hosts`, such as `[fd02::1]:80`, each `count` times and each time on a new connection. */
export function askCommand(hosts: readonly string[], count: number): readonly string[] {
  const request = `wget -q -O - http://$host${clientPath} || echo ${NO_ANSWER}`;
  const loop = `for host in ${hosts.join(" ")}; do for i in $(seq ${count}); do ${request}; done; done`;
  // wget of Debian's busybox crashes with a time limit of its own.
  return ["timeout", String(POD_LIMIT_SECONDS), "sh", "-c", loop];
}

/** A machine on the node's link. It has no route to pods and Services, and refuses what is for them. */
export interface OtherMachine {
  /** Asks from there, or from the node itself, as {@link askCommand} does. Resolves with the answers. */
  ask(from: "machine" | "node", hosts: readonly string[], count: number): Promise<readonly string[]>;
  /** Ends its web server. The machine itself ends with this process. */
  close(): Promise<void>;
}

/** Gives this network namespace the node's addresses on a link to another machine, its default gateway, with a web server. */
export async function connectOtherMachine(): Promise<OtherMachine> {
  const namespace = createTestNamespaces().create();
  const there = (command: string) => outputIn(namespace, "sh", "-ec", command);
  await execa("sh", ["-ec", connectNode(namespace.path)]);
  there(connectMachine);
  const busybox = join((await unpackPackages("bookworm")).root, "bin/busybox");
  const folder = await mkdtemp(join(tmpdir(), "berth-machine-"));
  there(writeProgram(folder, "machine"));
  const argv = [busybox, "httpd", "-f", "-p", String(serverPort), "-h", folder];
  const server = Bun.spawn(["nsenter", `--net=${namespace.path}`, "--", ...argv]);
  const ask: OtherMachine["ask"] = async (from, hosts, count) => {
    const connect: Connect = (open) => (from === "machine" ? namespace.run(open) : open());
    const answers: string[] = [];
    for (const host of hosts) for (let asked = 0; asked < count; asked++) answers.push(await askOnce(connect, host));
    return answers;
  };
  const own = Object.values(machine).map((address) => hostOf(address, serverPort));
  await pollUntil("the other machine's web server", 10_000, async () =>
    (await ask("node", own, 1)).every((answer) => answer !== NO_ANSWER),
  );
  return {
    ask,
    async close() {
      server.kill();
      await server.exited;
      await rm(folder, { recursive: true });
    },
  };
}

/** An address and a port as a URL has them. */
export const hostOf = (address: string, port: number): string =>
  address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;

type Connect = <T>(open: () => T) => T;

/** Sends one request from the network namespace of `connect`. The web server closes the connection behind its answer. */
async function askOnce(connect: Connect, host: string): Promise<string> {
  const { hostname, port } = new URL(`http://${host}`);
  const { promise, resolve } = Promise.withResolvers<string>();
  let response = "";
  const connecting = connect(() =>
    Bun.connect({
      hostname: hostname.replace(/[[\]]/g, ""),
      port: Number(port || 80),
      socket: {
        open: (socket) => void socket.write(`GET ${clientPath} HTTP/1.0\r\n\r\n`),
        data(_socket, bytes) {
          response += bytes.toString();
        },
        close: () => resolve(response),
        connectError: () => resolve(""),
      },
    }),
  );
  const timer = setTimeout(() => resolve(""), LIMIT_SECONDS * 1000);
  const text = await promise;
  clearTimeout(timer);
  // A connection that is refused is reported by connectError, too.
  void connecting.then(
    (socket) => socket.terminate(),
    () => undefined,
  );
  return text.split("\n").at(-2) ?? NO_ANSWER;
}

const connectNode = (namespace: string) => `ip link set lo up
ip link add uplink type veth peer name eth0 netns ${namespace}
ip address add ${node.ipv4}/24 dev uplink
ip address add ${node.ipv6}/64 dev uplink nodad
ip link set uplink up
ip route add default via ${machine.ipv4}
ip route add default via ${machine.ipv6}`;

/** As a router without a route it refuses at once what is for pods and Services, so that no client waits. */
const connectMachine = `ip link set lo up
ip address add ${machine.ipv4}/24 dev eth0
ip address add ${machine.ipv6}/64 dev eth0 nodad
ip link set eth0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding`;
