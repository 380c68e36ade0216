/**
 * A sysctl as runtimes take it, with dots between its parts: `net/ipv4/conf/eth0.100/mtu` is `net.ipv4.conf.eth0/100.mtu`. Which of the two
 * separates the parts, the first of them tells, as in sysctl.d(5).
 */
export function dottedSysctl(name: string): string {
  const [first] = /[./]/.exec(name) ?? [];
  return first === "/" ? name.replace(/[./]/g, (each) => (each === "/" ? "." : "/")) : name;
}
