// Hides secrets in the arguments of this process, which every user on the machine can read.
#pragma once

namespace sluice {

// Replaces user and password in the URL after --redis by one `*`, in place. Also replaces its
// options if they contain a sentinel's login. Call it at the start of main, after copying the
// arguments.
void HideLogins(int count, char** arguments);

}  // namespace sluice
