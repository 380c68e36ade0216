import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openServed } from "../../../../host/fs/served-folder.ts";
import { streamProgram } from "../../../../host/program-output.ts";
import { FakeLog } from "../../../../test/fakes/log.ts";
import { createPlainApi, type PlainApi } from "../../../../test/fakes/plain-api.ts";
import { createNodeLogRoutes } from "./node-logs.ts";

let folder: string;
let api: PlainApi;
let journalArgs: (readonly string[])[];

async function serve(allowsQuery: boolean): Promise<void> {
  api = await createPlainApi(
    createNodeLogRoutes({
      openLog: (path) => openServed(join(folder, "log"), path),
      async journal(args, write, signal) {
        journalArgs.push(args);
        const printed =
          args[0] === "--field=_SYSTEMD_UNIT" ? "kubelet.service\ncron.service\n" : "line one\nline two\n";
        const code = await streamProgram(["printf", "%s", printed], write, { env: { PATH: "/usr/bin:/bin" }, signal });
        expect(code).toBe(0);
      },
      allowsQuery,
    }),
    new FakeLog(),
  );
}

beforeEach(async () => {
  journalArgs = [];
  folder = await mkdtemp(join(tmpdir(), "berth-node-logs-"));
  await mkdir(join(folder, "log", "pods", "shop"), { recursive: true });
  await writeFile(join(folder, "secret"), "root:x");
  await writeFile(join(folder, "log", "syslog"), "a line\n");
  await writeFile(join(folder, "log", "other.log"), "another line\n");
  await writeFile(join(folder, "log", "a b?#<x>.log"), "strange\n");
  await writeFile(join(folder, "log", "page.html"), "<script>");
  await serve(true);
});
afterEach(async () => {
  await api.stop();
  await rm(folder, { recursive: true });
});

test("a file is sent as text that no browser may take for a page", async () => {
  const answer = await api.get("/logs/syslog");
  expect([answer.status, answer.text]).toEqual([200, "a line\n"]);
  const page = await api.get("/logs/page.html");
  expect([page.headers["content-type"], page.headers["x-content-type-options"]]).toEqual([
    "text/plain; charset=utf-8",
    "nosniff",
  ]);
});

test("ranges of a file are sent, one as it is and several as multipart", async () => {
  await writeFile(join(folder, "log", "long.log"), Buffer.alloc(200_000, "0123456789"));
  const rangeOf = (range: string) => api.send("GET", "/logs/long.log", { range });
  const one = await rangeOf("bytes=70001-70004");
  expect([one.status, one.text, one.headers["content-range"], one.headers["content-length"]]).toEqual([
    206,
    "1234",
    "bytes 70001-70004/200000",
    "4",
  ]);
  expect((await rangeOf("bytes=100000-")).text).toHaveLength(100_000);
  const two = await rangeOf("bytes=0-1,-2");
  const [, boundary = ""] =
    /^multipart\/byteranges; boundary=([0-9a-f]{60})$/.exec(`${two.headers["content-type"]}`) ?? [];
  expect(two.text.replaceAll(boundary, "B").split("\r\n")).toEqual([
    ...["--B", "Content-Range: bytes 0-1/200000", "Content-Type: text/plain; charset=utf-8", "", "01"],
    ...["--B", "Content-Range: bytes 199998-199999/200000", "Content-Type: text/plain; charset=utf-8", "", "89"],
    ...["--B--", ""],
  ]);
  expect(two.headers["content-length"]).toBe(String(two.text.length));
  const beyond = await rangeOf("bytes=200000-");
  expect([beyond.status, beyond.text, beyond.headers["content-range"]]).toEqual([
    416,
    "invalid range: failed to overlap\n",
    "bytes */200000",
  ]);
});

test("a file and a folder that have not changed are not sent again", async () => {
  for (const path of ["/logs/syslog", "/logs/pods/"]) {
    const { status, headers } = await api.get(path);
    const since = String(headers["last-modified"]);
    const again = await api.send("GET", path, { "if-modified-since": since });
    expect([path, status, again.status, again.text]).toEqual([path, 200, 304, ""]);
    const changed = await api.send("GET", path, { "if-modified-since": new Date(0).toUTCString() });
    expect([path, changed.status]).toEqual([path, 200]);
  }
  const older = await api.send("GET", "/logs/syslog", { "if-unmodified-since": new Date(0).toUTCString() });
  expect([older.status, older.text]).toEqual([412, ""]);
});

test("a folder is listed as Go lists it, and a folder without a slash is redirected", async () => {
  const { text } = await api.get("/logs/");
  expect(text).toBe(
    '<!doctype html>\n<meta name="viewport" content="width=device-width">\n<pre>\n<a href="a%20b%3F%23%3Cx%3E.log">a b?#&lt;x&gt;.log</a>\n<a href="other.log">other.log</a>\n<a href="page.html">page.html</a>\n<a href="pods/">pods/</a>\n<a href="syslog">syslog</a>\n</pre>\n',
  );
  const redirect = await api.get("/logs/pods");
  expect([redirect.status, redirect.headers["location"]]).toEqual([301, "pods/"]);
  expect((await api.get("/logs/a%20b%3F%23%3Cx%3E.log")).text).toBe("strange\n");
});

test("no symlink, no .. and no file of another kind leads out of the folder of logs", async () => {
  const log = join(folder, "log");
  await symlink(join(folder, "secret"), join(log, "absolute"));
  await symlink("../secret", join(log, "relative"));
  await symlink("../../secret", join(log, "pods", "deep"));
  await symlink("..", join(log, "up"));
  await symlink("self", join(log, "self"));
  await symlink("syslog", join(log, "inside"));
  await Bun.spawn(["mkfifo", join(log, "fifo")]).exited;
  for (const path of [
    "absolute",
    "relative",
    "pods/deep",
    "up/secret",
    "self",
    "fifo",
    "nothing",
    "syslog/x",
    "%2e%2e/secret",
    "pods/%2e%2e/%2e%2e/secret",
    "%00",
    "a".repeat(300),
  ]) {
    const answer = await api.get(`/logs/${path}`);
    expect([path, answer.status, answer.text.includes("root:x")]).toEqual([path, 404, false]);
  }
  expect((await api.get("/logs/inside")).text).toBe("a line\n");
  const query = await api.get("/logs/?query=/../secret");
  expect([query.status, query.text.includes("root:x")]).toEqual([404, false]);
});

test("an absolute link with the path of the folder of logs is followed inside it, and leads nowhere else", async () => {
  const log = join(folder, "log");
  await mkdir(join(log, "containers"));
  await writeFile(join(log, "pods", "shop", "0.log"), "of a container\n");
  const link = (name: string, target: string) => symlink(target, join(log, "containers", name));
  await link("web.log", join(log, "pods", "shop", "0.log"));
  await link("again.log", `${log}//containers/./web.log`);
  await link("pods", join(log, "pods"));
  await link("whole", log);
  await link("up.log", `${log}/../secret`);
  await link("far.log", `${log}/${"../".repeat(20)}${folder.slice(1)}/secret`);
  await link("beside.log", `${log}x/secret`);
  await link("through.log", `${log}/containers/out`);
  await link("out", join(folder, "secret"));
  await link("loop.log", join(log, "containers", "pool.log"));
  await link("pool.log", join(log, "containers", "loop.log"));
  await mkdir(`${log}x`);
  await writeFile(`${log}x/secret`, "root:x");
  for (const path of ["web.log", "again.log", "pods/shop/0.log", "whole/pods/shop/0.log", "whole/containers/web.log"])
    expect([path, (await api.get(`/logs/containers/${path}`)).text]).toEqual([path, "of a container\n"]);
  for (const path of [
    "up.log",
    "far.log",
    "beside.log",
    "through.log",
    "out",
    "loop.log",
    "whole/%2e%2e/%2e%2e/secret",
  ]) {
    const answer = await api.get(`/logs/containers/${path}`);
    expect([path, answer.status, answer.text.includes("root:x")]).toEqual([path, 404, false]);
  }
});

test("each request closes what it has opened", async () => {
  const openFiles = async () => (await readdir("/proc/self/fd")).length;
  await api.get("/logs/syslog");
  const before = await openFiles();
  for (let i = 0; i < 50; i++) {
    await api.get("/logs/syslog");
    await api.get("/logs/nothing");
    await api.get("/logs/?query=other");
    await api.send("GET", "/logs/syslog", { range: "bytes=0-1,3-4" });
    await api.send("GET", "/logs/syslog", { range: "bytes=900-" });
    await api.send("GET", "/logs/syslog", { "if-modified-since": new Date().toUTCString() });
  }
  expect(await openFiles()).toBeLessThan(before + 10);
});

test("a query for services is answered from the journal, and from files where the journal has none", async () => {
  const journal = await api.get("/logs/?query=kubelet&tailLines=2");
  expect([journal.status, journal.text]).toEqual([200, "line one\nline two\n"]);
  expect(journalArgs.at(-1)).toContain("--unit=kubelet");
  expect((await api.get("/logs/?query=other")).text).toBe("another line\n");
  expect((await api.get("/logs/?query=nothing")).text).toBe("\nlog not found for nothing\n");
  expect((await api.get("/logs/?query=other&tailLines=1")).text).toContain("try without specifying options");
  expect((await api.get("/logs/?query=/syslog")).text).toBe("a line\n");
  expect((await api.get("/logs/x?query=kubelet")).status).toBe(406);
});

test("without enableSystemLogQuery a query is ignored, and no program runs", async () => {
  await api.stop();
  await serve(false);
  expect((await api.get("/logs/?query=kubelet")).text).toContain("<pre>");
  expect(journalArgs).toEqual([]);
});
