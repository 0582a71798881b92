// What the studio needs beyond the viewer: a file dropped on a page.
"use strict";
