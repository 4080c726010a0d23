package main

import "context"

const roleEnv = "X"

func child(string) error                         { return nil }
func (b *bench) grown(context.Context) error     { return nil }
func (b *bench) held(context.Context) error      { return nil }
func (b *bench) contended(context.Context) error { return nil }
func (b *bench) lone(context.Context) error      { return nil }
func (s speeds) draw(string, []rival) error      { return nil }
