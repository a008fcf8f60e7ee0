create or replace function tasker.drawn_numbers(p_population bigint, p_size int, p_seed text) returns bigint[]
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_draws   int := p_size;
  v_numbers bigint[];
begin
  if p_population <= p_size then
    return array(select n from generate_series(1, p_population) n);
  end if;
  -- what was drawn before is drawn again, until there are enough different ones
  loop
    v_draws := v_draws * 2;
    v_numbers := array(
      select d.number
        from (select 1 + ('x' || left(encode(sha256(convert_to(p_seed || ':' || i, 'UTF8')), 'hex'), 15))::bit(60)::bigint % p_population as number, min(i) as draw
                from generate_series(1, v_draws) i
               group by 1) d
       order by d.draw
       limit p_size);
    exit when cardinality(v_numbers) = p_size;
  end loop;
  return v_numbers;
end
$$;
comment on function tasker.drawn_numbers(bigint, int, text) is
  'Different numbers from 1 to p_population, each as likely as any other: draw i gives 1 + (the first 15 hexadecimal digits of sha256 of "seed:i", as a number) modulo p_population; numbers that were drawn before are left out.';
