//! Redlock: foreign clients on three servers, beside each other. lockkeeper's Redlock has a layout
//! of its own, for its tokens.

use super::pairs::pair;

pair!(redsync_and_node_redlock, REDSYNC, NODE_REDLOCK, three);
pair!(redsync_and_rslock, REDSYNC, RSLOCK, three);
pair!(node_redlock_and_rslock, NODE_REDLOCK, RSLOCK, three);
