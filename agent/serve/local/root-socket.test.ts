import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listenOnRootSocket } from "./root-socket.ts";

let folder: string;
let path: string;
let server: Server;
let errors: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "root-socket-"));
  path = join(folder, "some.sock");
  server = createServer();
  errors = [];
});
afterEach(async () => {
  server.close();
  await rm(folder, { recursive: true });
});
const listen = () => listenOnRootSocket(server, path, ({ message }) => void errors.push(message));

test("errors of a socket that is served are handed over, each of them, and none ends the process", async () => {
  await listen();
  for (const message of ["accept EMFILE", "accept ENFILE"]) server.emit("error", new Error(message));
  expect(errors).toEqual(["accept EMFILE", "accept ENFILE"]);
});

test("a socket that cannot be created is a FilesError, and nothing is handed over", async () => {
  path = join(folder, "absent/some.sock");
  await expect(listen()).rejects.toMatchObject({ name: "FilesError", code: "ENOENT" });
  path = folder;
  await mkdir(join(folder, "full"));
  await expect(listen()).rejects.toMatchObject({ name: "FilesError" });
  expect(errors).toEqual([]);
});
