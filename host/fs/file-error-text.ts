import { type StatsFs, statfsSync } from "node:fs";
import { dirname } from "node:path/posix";

const texts: Readonly<Record<string, string>> = {
  ELOOP: "is a loop of symlinks",
  ESYMLINK: "contains a symlink, which is not followed",
  ENOTFILE: "is not a regular file",
  EACCES: "cannot be accessed: permission denied",
  ENOENT: "does not exist",
  EEXIST: "exists and is not a directory",
  ENOTDIR: "is below something that is not a directory",
  EDQUOT: "cannot be written: the disk quota is used up",
  EROFS: "cannot be written: the file system is read-only",
  EISDIR: "is a directory, not a regular file",
  ENAMETOOLONG: "has a name of more than 255 bytes",
  ERR_ENCODING_INVALID_ENCODED_DATA: "is not UTF-8 text",
};

/** What a failed file operation means, to follow the path in a message; undefined for a code without a text. */
export function fileErrorText(code: string, path: string): string | undefined {
  return code === "ENOSPC" ? `cannot be written: ${noSpaceText(path)}` : texts[code];
}

/** ENOSPC means that blocks or inodes are used up; the file system tells which. */
function noSpaceText(path: string): string {
  const space = spaceAbove(path);
  // A file system without inodes has 0 of both.
  const hasInodesLeft = space === undefined || space.files === 0 || space.ffree > 0;
  return hasInodesLeft ? "the disk is full" : "the disk has no inodes left";
}

function spaceAbove(path: string): StatsFs | undefined {
  const folder = dirname(path);
  try {
    return statfsSync(folder);
  } catch {
    // The parent may be missing, too: it is created with the path.
    return folder === path ? undefined : spaceAbove(folder);
  }
}

/** What a failed watch means: inotify has limits of its own, with the codes of full tables and full disks. */
export function watchErrorText(code: string): string | undefined {
  if (code === "EMFILE")
    return "cannot be watched: no inotify instance is left (fs.inotify.max_user_instances), or no file descriptor";
  return code === "ENOSPC" ? "cannot be watched: no inotify watch is left (fs.inotify.max_user_watches)" : undefined;
}
