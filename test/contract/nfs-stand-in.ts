import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * Makes a folder with a program `mount` that is put before the machine's in PATH: it mounts an empty tmpfs where an NFS
 * server is asked for, unless the server is named `hangs` (it never ends) or `refuses`; for `late` it mounts when it was
 * killed, and makes `TARGET.started` before. A server that is none of these and `answers` does not exist. Any other file system is mounted by the machine's program.
 */
export async function makeNfsStandIn(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const program = join(folder, "mount");
  await writeFile(program, text);
  await chmod(program, 0o755);
  return `${folder}:/usr/sbin:/usr/bin:/sbin:/bin`;
}

/** Called as \`mount -t nfs [-o options] -- server:path target\`. */
const text = `#!/bin/sh
options=relatime
[ "$1 $2" = "-t nfs" ] || exec /bin/mount "$@"
shift 2
if [ "$1" = "-o" ]; then options=$2; shift 2; fi
[ "$1" = "--" ] || { echo "mount: no --" >&2; exit 1; }
case $2 in
  answers:*) exec /bin/mount -t tmpfs -o "$(echo "$options" | tr , '\\n' | grep -v nfsvers | paste -sd,)" -- "$2" "$3" ;;
  hangs:*) while :; do sleep 1; done ;;
  late:*)
    setsid sh -c 'touch "$3.started"; while kill -0 "$1"; do sleep 0.02; done; mount -t tmpfs "$2" "$3"' sh $$ "$2" "$3" 2>/dev/null &
    while :; do sleep 1; done ;;
  refuses:*) echo "mount.nfs: access denied by server while mounting $2" >&2; exit 32 ;;
  *) echo "mount.nfs: Failed to resolve server $2" >&2; exit 32 ;;
esac
`;
