/** A port of 127.0.0.1 that was free a moment ago: nobody answers there. */
export async function freePort(): Promise<number> {
  const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response() });
  const { port } = taken;
  await taken.stop(true);
  return port!;
}
