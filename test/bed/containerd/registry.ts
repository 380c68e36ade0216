import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { bedPaths } from "../cleanup/bed-record.ts";
import { ifAbsent } from "../if-absent.ts";
import type { Blob, BuiltImage } from "../images/oci-layout.ts";
import { unpackPackages } from "../packages.ts";
import { pollUntil } from "../poll-until.ts";
import type { Containerd } from "./containerd.ts";

/** An image registry on 127.0.0.1 for one containerd, which pulls from it over plain HTTP. */
export interface Registry {
  /** `127.0.0.1:PORT`: the first part of its images' names. */
  readonly host: string;
  readonly logFile: string;
  /** Uploads an image and returns the name to pull it by, such as `127.0.0.1:5000/berth.test/web:1`. */
  push(image: BuiltImage): Promise<string>;
  stop(): Promise<void>;
}

/** The credentials that the registry requires. */
export interface RegistryUser {
  readonly username: string;
  readonly password: string;
}

/**
 * Starts Debian's docker-registry below the state folder of `containerd`, whose clean-up removes it, and configures
 * plain HTTP for it. Returns once it answers. Without `user` it serves everyone. A second registry of the same
 * containerd serves the same images, with credentials of its own.
 */
export async function startRegistry(containerd: Containerd, user?: RegistryUser): Promise<Registry> {
  const { root } = await unpackPackages("bookworm");
  const paths = bedPaths(containerd.record.stateDir);
  const logFile = join(containerd.record.stateDir, "registry.log");
  await mkdir(paths.registryStore, { recursive: true });
  await writeFile(paths.registryConfig, await configuration(paths.registryStore, user));
  const readLog = () => readFile(logFile, "utf8").catch(ifAbsent(""));
  const logged = (await readLog()).length;
  const log = openSync(logFile, "a");
  const child = spawn(join(root, "usr/bin/docker-registry"), ["serve", paths.registryConfig], {
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  // The kernel picks the port: a port that we picked beforehand could be in use by now.
  const host = await pollUntil(`the port of the registry, whose log is ${logFile}`, 10_000, async () => {
    if (child.exitCode !== null) throw new Error(`the registry exited; its log is ${logFile}`);
    return /listening on (127\.0\.0\.1:\d+)/.exec((await readLog()).slice(logged))?.[1];
  });
  await allowPlainHttp(containerd, host);
  const authorization = user && `Basic ${btoa(`${user.username}:${user.password}`)}`;
  const request: SendRequest = (path, init = {}) =>
    fetch(new URL(path, `http://${host}`), {
      ...init,
      headers: { ...init.headers, ...(authorization && { authorization }) },
    });
  await pollUntil(`the registry, whose log is ${logFile}`, 10_000, async () => {
    if (child.exitCode !== null) throw new Error(`the registry exited; its log is ${logFile}`);
    return await request("/v2/").then(
      ({ ok }) => ok,
      () => false,
    );
  });
  return {
    host,
    logFile,
    push: async (image) => `${host}/${await push(request, image)}`,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGTERM");
      await new Promise((resolve) => child.once("exit", resolve));
    },
  };
}

/** Writes containerd's `hosts.toml` for one host without TLS. containerd reads it at the next pull. */
async function allowPlainHttp(containerd: Pick<Containerd, "registryHosts">, host: string): Promise<void> {
  const folder = join(containerd.registryHosts, host);
  await mkdir(folder, { recursive: true });
  const server = JSON.stringify(`http://${host}`);
  await writeFile(
    join(folder, "hosts.toml"),
    `server = ${server}\n\n[host.${server}]\n  capabilities = ["pull", "resolve"]\n`,
  );
}

type SendRequest = (path: string, init?: RequestInit & { headers?: Record<string, string> }) => Promise<Response>;

/** Uploads an image by the distribution specification: each blob by POST and PUT, then the manifest by its tag. */
async function push(request: SendRequest, image: BuiltImage): Promise<string> {
  const at = image.name.lastIndexOf(":");
  const [repository, tag] = [image.name.slice(0, at), image.name.slice(at + 1)];
  for (const blob of [...image.layers, image.config]) await pushBlob(request, repository, blob);
  const headers = { "content-type": image.manifest.mediaType };
  const body = image.manifest.bytes;
  await expectCreated(await request(`/v2/${repository}/manifests/${tag}`, { method: "PUT", headers, body }));
  return image.name;
}

async function pushBlob(request: SendRequest, repository: string, blob: Blob): Promise<void> {
  const opened = await request(`/v2/${repository}/blobs/uploads/`, { method: "POST" });
  const location = new URL(opened.headers.get("location") ?? "", opened.url);
  location.searchParams.set("digest", blob.digest);
  const headers = { "content-type": "application/octet-stream" };
  await expectCreated(await request(location.href, { method: "PUT", headers, body: blob.bytes }));
}

async function expectCreated(response: Response): Promise<void> {
  if (response.status !== 201) throw new Error(`the registry answered ${response.status}: ${await response.text()}`);
}

async function configuration(store: string, user: RegistryUser | undefined): Promise<string> {
  const auth = user && { htpasswd: { realm: "berth", path: await passwordFile(store, user) } };
  // JSON is valid YAML.
  return JSON.stringify({
    version: "0.1",
    log: { level: "info" },
    storage: { filesystem: { rootdirectory: join(store, "images") } },
    http: { addr: "127.0.0.1:0" },
    ...(auth && { auth }),
  });
}

async function passwordFile(store: string, { username, password }: RegistryUser): Promise<string> {
  const path = join(store, "htpasswd");
  const hash = await Bun.password.hash(password, { algorithm: "bcrypt", cost: 4 });
  await writeFile(path, `${username}:${hash}\n`, { mode: 0o600 });
  return path;
}
