import type { FileCall, FileCallFailure, FileCallOutput } from "../host/fs/file-call.ts";
import { createFiles, FilesError } from "../host/fs/files.ts";
import { createMounts } from "../host/fs/mounts.ts";

/** The agent kills a call that prints nothing for a minute. */
const PROGRESS_EVERY_MS = 1_000;

/**
 * The command that the agent starts for itself where a call on files may hang, since a server may not answer: the process
 * can be killed. It prints the outcome, also that of a call that fails, and returns the exit code.
 */
export async function runFileCall([text = ""]: readonly string[]): Promise<number> {
  try {
    print({ result: await perform(JSON.parse(text)) });
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    print({ failure: toFailure(error) });
  }
  return 0;
}

async function perform(call: FileCall): Promise<unknown> {
  const [files, mounts] = [createFiles("/"), createMounts()];
  switch (call[0]) {
    case "stat":
      return await files.stat(call[1]);
    case "realPath":
      return await files.realPath(call[1]);
    case "unmount":
      return await mounts.unmount(call[1]);
    case "makeFolder":
      return await files.makeFolder(call[1], call[2]);
    case "makeEmptyFile":
      return await files.makeEmptyFile(call[1], call[2]);
    case "bind":
      return await mounts.bind(call[1], call[2], call[3]);
    case "bindBeneath":
      return await mounts.bindBeneath(call[1], call[2], call[3]);
    case "changeGroup": {
      const { signal } = new AbortController();
      const change = { ...call[2], signal, onProgress: createProgressReport() };
      const { count, failure } = await files.changeGroup(call[1], change);
      return { count, ...(failure && { failure: toFailure(failure) }) };
    }
  }
}

function createProgressReport(): (count: number) => void {
  let reportedAt = performance.now();
  return (progress) => {
    if (performance.now() - reportedAt < PROGRESS_EVERY_MS) return;
    reportedAt = performance.now();
    print({ progress });
  };
}

function print(output: FileCallOutput): void {
  process.stdout.write(`${JSON.stringify(output)}\n`);
}

const toFailure = ({ code, path, message }: FilesError): FileCallFailure => ({ code, path, message });
