/** Where the guest has its second disk, with all that is tested. */
export const berthFolder = "/opt/berth";
