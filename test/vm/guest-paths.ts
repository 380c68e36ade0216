/** The mount point of the guest's second disk with the tested files. */
export const berthFolder = "/opt/berth";
