/** One member of a tar archive. Unpacking creates missing parent folders: list a folder only if its mode matters. */
export type TarEntry =
  | { readonly path: string; readonly kind: "folder"; readonly mode?: number }
  | { readonly path: string; readonly kind: "file"; readonly bytes: Uint8Array; readonly mode?: number }
  | { readonly path: string; readonly kind: "symlink"; readonly target: string };

const block = 512;
const typeFlags = { file: "0", symlink: "2", folder: "5" } as const;

/**
 * Writes a ustar archive (POSIX.1-1988): all entries owned by root, dated 1970, in the given order, so that equal
 * entries give equal bytes and equal digests. Throws for a path or a symlink target of more than 100 bytes.
 */
export function writeTar(entries: readonly TarEntry[]): Uint8Array {
  const parts = entries.flatMap((entry) => {
    const bytes = entry.kind === "file" ? entry.bytes : new Uint8Array();
    return [header(entry, bytes.length), bytes, new Uint8Array(-bytes.length & (block - 1))];
  });
  return new Uint8Array(Buffer.concat([...parts, new Uint8Array(2 * block)]));
}

function header(entry: TarEntry, size: number): Uint8Array {
  const head = Buffer.alloc(block);
  const text = (at: number, length: number, value: string) => {
    if (Buffer.byteLength(value) > length) throw new Error(`tar: "${value}" is longer than ${length} bytes`);
    head.write(value, at);
  };
  const octal = (at: number, length: number, value: number) =>
    text(at, length, value.toString(8).padStart(length - 1, "0"));
  const mode = entry.kind === "symlink" ? 0o777 : (entry.mode ?? (entry.kind === "folder" ? 0o755 : 0o644));
  text(0, 100, entry.kind === "folder" ? `${entry.path}/` : entry.path);
  octal(100, 8, mode);
  octal(108, 8, 0);
  octal(116, 8, 0);
  octal(124, 12, size);
  octal(136, 12, 0);
  text(148, 8, " ".repeat(8));
  text(156, 1, typeFlags[entry.kind]);
  if (entry.kind === "symlink") text(157, 100, entry.target);
  text(257, 8, "ustar\u000000");
  // The checksum counts its own field as spaces.
  const sum = head.reduce((total, byte) => total + byte, 0);
  text(148, 8, `${sum.toString(8).padStart(6, "0")}\u0000 `);
  return head;
}
