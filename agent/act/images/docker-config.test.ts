import { expect, test } from "bun:test";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { dockerConfigFiles, readDockerConfigs } from "./docker-config.ts";

const files = dockerConfigFiles("/var/lib/kubelet", "/work", "/root");
const login = (username: string) => ({ "r.example": { username, password: "p" } });

async function machineWith(contents: Readonly<Record<string, unknown>>) {
  const machine = new FakeDisk(() => 0).at("/");
  for (const [path, content] of Object.entries(contents)) {
    const at = path.lastIndexOf("/");
    if (at > 0) await machine.makeFolder(path.slice(1, at), 0o755);
    await machine.write(path.slice(1), typeof content === "string" ? content : JSON.stringify(content), 0o600);
  }
  const logins = await readDockerConfigs(machine, files);
  return logins.map(([, { username }]) => username);
}

test("Docker config files are searched in the kubelet's order", () => {
  expect(files.map(([path]) => path)).toEqual([
    "/var/lib/kubelet/config.json",
    "/work/config.json",
    "/root/.docker/config.json",
    "/.docker/config.json",
    "/var/lib/kubelet/.dockercfg",
    "/work/.dockercfg",
    "/root/.dockercfg",
    "/.dockercfg",
  ]);
  expect(dockerConfigFiles("/r", undefined, undefined).map(([path]) => path)).toEqual([
    ...["/r/config.json", "/.docker/config.json", "/r/.dockercfg", "/.dockercfg"],
  ]);
});

test("an agent whose working directory is / finds its config.json there", async () => {
  const machine = new FakeDisk(() => 0).at("/");
  await machine.write("config.json", JSON.stringify({ auths: login("here") }), 0o600);
  expect(await readDockerConfigs(machine, dockerConfigFiles("/r", "/", undefined))).toHaveLength(1);
});

const rows: readonly [sentence: string, contents: Readonly<Record<string, unknown>>, usernames: readonly string[]][] = [
  ["no file is no login", {}, []],
  [
    "only the first existing file is used",
    { "/root/.docker/config.json": { auths: login("home") }, "/.docker/config.json": { auths: login("root") } },
    ["home"],
  ],
  [
    "a .dockercfg is used after every config.json",
    { "/var/lib/kubelet/.dockercfg": login("old"), "/.docker/config.json": { auths: login("new") } },
    ["new"],
  ],
  ["a .dockercfg is used if there is no config.json", { "/.dockercfg": login("old") }, ["old"]],
  [
    "a file that cannot be read is skipped",
    { "/var/lib/kubelet/config.json": "{", "/work/config.json": { auths: login("next") } },
    ["next"],
  ],
];
for (const [sentence, contents, usernames] of rows)
  test(sentence, async () => {
    expect(await machineWith(contents)).toEqual([...usernames]);
  });
