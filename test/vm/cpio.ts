/** One file of an initramfs archive. Its parent directories are added automatically. */
export interface CpioFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  readonly isProgram?: boolean;
}

const FOLDER = 0o040755;
const PROGRAM = 0o100755;
const FILE = 0o100644;

/**
 * Writes an archive in cpio's "new ASCII" format, which the kernel expects (Documentation/driver-api/early-userspace):
 * owned by root, each directory before its contents.
 */
export function writeCpio(files: readonly CpioFile[]): Uint8Array {
  const folders = new Set(files.flatMap(({ path }) => foldersOf(path)));
  const members = [
    ...[...folders].map((path) => ({ path, mode: FOLDER, bytes: new Uint8Array() })),
    ...files.map(({ path, bytes, isProgram }) => ({ path, mode: isProgram ? PROGRAM : FILE, bytes })),
    { path: "TRAILER!!!", mode: 0, bytes: new Uint8Array() },
  ];
  return new Uint8Array(Buffer.concat(members.flatMap((member, at) => memberOf(member, at + 1))));
}

/** The parent directories of a path: `a` and `a/b` for `a/b/c`. */
function foldersOf(path: string): readonly string[] {
  const names = path.split("/").slice(0, -1);
  return names.map((_, at) => names.slice(0, at + 1).join("/"));
}

function memberOf({ path, mode, bytes }: { path: string; mode: number; bytes: Uint8Array }, inode: number) {
  const name = Buffer.from(`${path}\0`);
  // inode, mode, uid, gid, links, time, size, four device numbers, the name's length, and an unused checksum.
  const numbers = [inode, mode, 0, 0, 1, 0, bytes.length, 0, 0, 0, 0, name.length, 0];
  const head = Buffer.from(`070701${numbers.map((number) => number.toString(16).padStart(8, "0")).join("")}`);
  return [head, name, padding(head.length + name.length), bytes, padding(bytes.length)];
}

const padding = (length: number) => new Uint8Array(-length & 3);
