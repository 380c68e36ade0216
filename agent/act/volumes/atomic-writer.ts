import { normalize } from "node:path/posix";
import { crc32 } from "node:zlib";
import { type FileEntry, type Files, FilesError } from "../../../host/fs/files.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { VolumeFile } from "../../translate/volumes/volume-file.ts";

/*
 * Writes the files of a volume so that a container sees either all old or all new ones, in the layout of the kubelet's
 * atomic writer, which programs in containers watch:
 *
 *   ..2026_01_31_13_04_59.2596996162/tls.key    the files
 *   ..data -> ..2026_01_31_13_04_59.2596996162  replaced by a rename, which switches all files at once
 *   tls.key -> ..data/tls.key                   one link for each first name of a path
 *
 * Nothing is fsynced: a power cut ends the containers as well, and the next one starts after another write, which
 * replaces whatever differs from the content.
 */

const DATA_LINK = "..data";
const NEW_DATA_LINK = "..data_tmp";
const timestampedFolder = /^\.\.\d{4}(_\d\d){5}\.\d+$/;
const MAX_NAME_BYTES = 255;
const MAX_PATH_BYTES = 4096;

/**
 * Gives a volume its content, and removes every other file of an earlier content. Writes nothing if it does already.
 * Whatever step fails, the old files stay whole, and the next write removes what this one has left. Throws `FilesError`,
 * or `TranslateError` in the kubelet's words for a path that it refuses. The caller makes the folder, and makes sure that
 * one write at a time is under way in it.
 *
 * `folderGroup`: the pod's fsGroup, to which the folders below the volume then belong, as the kubelet's ownership pass
 * leaves them. The files have their own group.
 */
export async function writeContent(
  files: Files,
  folder: string,
  content: readonly VolumeFile[],
  now: number,
  folderGroup?: number,
): Promise<"written" | "unchanged"> {
  const tree = toTree(content, folderGroup);
  const entries = (await files.list(folder)) ?? [];
  const previous = await currentFolder(files, folder, entries);
  if (previous !== undefined && (await hasTree(files, `${folder}/${previous}`, tree))) {
    await finish(files, folder, { entries, current: previous, tree });
    return "unchanged";
  }
  // First, because a full disk needs the space.
  const isLeftover = leftoversBeside(previous);
  for (const { name } of entries.filter(isLeftover)) await files.remove(`${folder}/${name}`);
  const current = newFolderName(previous, now);
  await publish(files, folder, current, tree);
  await finish(files, folder, { entries: entries.filter((entry) => !isLeftover(entry)), current, tree });
  return "written";
}

interface Tree {
  readonly files: ReadonlyMap<string, VolumeFile>;
  /** The folders below the volume that the files are in, parents first. */
  readonly folders: readonly string[];
  readonly folderMode: number;
  readonly folderGroup: number | undefined;
  /** The first names of all paths. */
  readonly links: ReadonlySet<string>;
}

function toTree(content: readonly VolumeFile[], folderGroup: number | undefined): Tree {
  // Of two files for one path the last one wins, as in the kubelet.
  const files = new Map(content.map((file) => [cleanPath(file.path), file]));
  const folders = new Set<string>();
  for (const path of files.keys())
    for (let end = path.indexOf("/"); end !== -1; end = path.indexOf("/", end + 1)) folders.add(path.slice(0, end));
  for (const path of folders)
    if (files.has(path)) throw pathError(`${path} is the path of a file and of a folder with files`);
  return {
    files,
    folders: [...folders].toSorted(),
    // To 0755 the kubelet's ownership pass adds only the set-group-id bit.
    folderMode: folderGroup === undefined ? 0o755 : 0o2755,
    folderGroup,
    links: new Set([...files.keys()].map((path) => path.split("/", 1).join())),
  };
}

/** Checks a path in the kubelet's order and words. */
function cleanPath(path: string): string {
  if (path === "") throw pathError('must not be empty: ""');
  if (path.startsWith("/")) throw pathError(`must be relative path: ${path}`);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw pathError(`must be less than or equal to ${MAX_PATH_BYTES} characters`);
  for (const name of path.split("/")) {
    if (name === "..") throw pathError(`must not contain '..': ${path}`);
    if (Buffer.byteLength(name) > MAX_NAME_BYTES)
      throw pathError(`filenames must be less than or equal to ${MAX_NAME_BYTES} characters`);
  }
  if (path.includes("\0")) throw pathError(`must not contain a null byte: ${JSON.stringify(path)}`);
  const clean = normalize(path).replace(/\/$/, "");
  if (clean === ".") throw pathError(`must name a file: ${path}`);
  // After the clean-up: `./..data` would replace a name of ours.
  if (clean.startsWith("..")) throw pathError(`must not start with '..': ${path}`);
  return clean;
}

const pathError = (why: string) => new TranslateError("FailedMount", `invalid path: ${why}`);

/** The name of the folder with the current files; undefined if there is none, or the link leads elsewhere. */
async function currentFolder(files: Files, folder: string, entries: readonly FileEntry[]): Promise<string | undefined> {
  if (!entries.some(({ name }) => name === DATA_LINK)) return undefined;
  const target = await files.readLink(`${folder}/${DATA_LINK}`);
  return target !== undefined && timestampedFolder.test(target) ? target : undefined;
}

/** Named by the second, as the kubelet's folders are; the digits make the name differ from the previous one. */
function newFolderName(previous: string | undefined, now: number): string {
  const second = new Date(now).toISOString().slice(0, "2026-01-31T13:04:59".length).replaceAll(/[-T:]/g, "_");
  const nameWith = (digits: number) => `..${second}.${digits}`;
  const digits = crc32(`${previous} ${now}`);
  return nameWith(digits) === previous ? nameWith(digits + 1) : nameWith(digits);
}

/** Whether a folder contains exactly these files, with their content, mode and owner. */
async function hasTree(files: Files, root: string, tree: Tree): Promise<boolean> {
  const { folders, folderMode, folderGroup } = tree;
  let found = 0;
  for (const path of ["", ...folders]) {
    const stat = await files.stat(`${root}/${path}`);
    if (stat?.mode !== folderMode || (folderGroup ?? stat.group) !== stat.group) return false;
    const entries = (await files.list(`${root}/${path}`)) ?? [];
    if (entries.some(({ kind }) => kind !== "file" && kind !== "directory")) return false;
    found += entries.length;
  }
  if (found !== folders.length + tree.files.size) return false;
  for (const [path, file] of tree.files) if (!(await hasFile(files, root, path, file))) return false;
  return true;
}

async function hasFile(files: Files, root: string, path: string, file: VolumeFile): Promise<boolean> {
  const stat = await files.stat(`${root}/${path}`);
  if (stat?.kind !== "file" || stat.mode !== file.mode) return false;
  if ((file.user ?? stat.user) !== stat.user || (file.group ?? stat.group) !== stat.group) return false;
  const content = Buffer.from(file.content as string);
  return stat.sizeBytes === content.length && content.equals(await files.readBeneath(root, path, content.length));
}

/** Writes the files into a new folder, and switches to it. */
async function publish(files: Files, folder: string, current: string, tree: Tree): Promise<void> {
  const root = `${folder}/${current}`;
  const newLink = `${folder}/${NEW_DATA_LINK}`;
  try {
    for (const path of ["", ...tree.folders])
      await files.makeFolder(`${root}/${path}`, tree.folderMode, tree.folderGroup);
    for (const [path, { mode, content, user, group }] of tree.files) {
      const owner = { ...(user === undefined ? {} : { user }), ...(group === undefined ? {} : { group }) };
      await files.makeFile(`${root}/${path}`, mode, content, owner);
    }
    await files.link(newLink, current);
    await files.rename(newLink, `${folder}/${DATA_LINK}`);
  } catch (error) {
    for (const path of [newLink, root])
      await files.remove(path).catch(() => {
        // The next write removes it. What has failed first is the better report.
      });
    throw error instanceof FilesError ? withoutFolderName(error, current) : error;
  }
}

/** Each write has another folder, and the same failure has to have the same text, by which it is logged once. */
function withoutFolderName(cause: FilesError, current: string): FilesError {
  const { code, path, message } = cause;
  const remove = (text: string) => text.replaceAll(`/${current}`, "");
  return new FilesError(code, remove(path), remove(message), { cause });
}

/**
 * Makes the links of the current files, and removes those of earlier ones with all folders but the current one. `entries`: what else
 * is in the folder.
 */
async function finish(
  files: Files,
  folder: string,
  written: { readonly entries: readonly FileEntry[]; readonly current: string; readonly tree: Tree },
): Promise<void> {
  const { entries, current, tree } = written;
  const { links } = tree;
  for (const name of links) {
    const target = `${DATA_LINK}/${name}`;
    const isThere = entries.some((entry) => entry.name === name && entry.kind === "symlink");
    if (!isThere || (await files.readLink(`${folder}/${name}`)) !== target)
      await files.link(`${folder}/${name}`, target);
  }
  for (const { name, kind } of entries) {
    const isOurs = kind === "symlink" && !name.startsWith("..") && !links.has(name);
    if (isOurs && (await files.readLink(`${folder}/${name}`)) === `${DATA_LINK}/${name}`)
      await files.remove(`${folder}/${name}`);
  }
  for (const { name } of entries.filter(leftoversBeside(current))) await files.remove(`${folder}/${name}`);
}

/** Finds what an interrupted write has left, and the files of earlier contents. */
const leftoversBeside =
  (current: string | undefined) =>
  ({ name }: FileEntry): boolean =>
    name === NEW_DATA_LINK || (timestampedFolder.test(name) && name !== current);
