// The arguments of this process, which everybody on the machine can read in the list of processes.
#pragma once

namespace sluice {

// Takes user and password out of the URL after --redis, in place: they become one `*`, as do its
// options if one of them is a sentinel's. To be called at the start of main, when what the
// arguments said has been copied.
void HideLogins(int count, char** arguments);

}  // namespace sluice
